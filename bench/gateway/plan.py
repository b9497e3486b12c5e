"""How much is measured: the sizes of a full run (under 12 minutes on two cores) and of a quick one."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    num_rounds: int = 3
    seconds: float = 5.0  # of one turn of a contender, as far as calls decide it
    stream_tokens: int = 200  # of the streams whose chunks are counted
    num_latency_calls: int = 400
    num_concurrent_streams: int = 3000
    concurrent_stream_tokens: int = 30

    @classmethod
    def quick(cls) -> "Plan":
        return cls(
            num_rounds=1,
            seconds=2.0,
            stream_tokens=60,
            num_latency_calls=150,
        )
