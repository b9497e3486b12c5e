"""What the figures must reach, each in a sentence. A target whose figure was not measured is not judged."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    figure: str
    sentence: str
    at_most: float | None = None
    at_least: float | None = None

    def is_met(self, value: float) -> bool:
        return (self.at_most is None or value <= self.at_most) and (
            self.at_least is None or value >= self.at_least
        )

    @property
    def bound(self) -> str:
        return f"≤ {self.at_most:g}" if self.at_most is not None else f"≥ {self.at_least:g}"


@dataclass(frozen=True)
class Verdict:
    target: Target
    value: float

    @property
    def is_met(self) -> bool:
        return self.target.is_met(self.value)


TARGETS = (
    Target("unstreamed_cpu_over_nginx", "CPU of a request, times nginx's", at_most=12),
    Target("unstreamed_cpu_litellm_over_ours", "CPU of a request, LiteLLM's times ours", at_least=40),
    Target("chunk_cpu_over_nginx", "CPU of a streamed chunk, times nginx's", at_most=2),
    Target("chunk_cpu_litellm_over_ours", "CPU of a streamed chunk, LiteLLM's times ours", at_least=10),
    Target("latency_added_slipstream_median_ms", "ms added to a request, median", at_most=0.6),
    Target("latency_added_slipstream_p99_ms", "ms added to a request, p99", at_most=3),
    Target("latency_added_litellm_over_ours", "ms added to a request, LiteLLM's times ours", at_least=10),
    Target("first_token_added_slipstream_median_ms", "ms added to the first token, median", at_most=0.6),
    Target("first_token_added_slipstream_p99_ms", "ms added to the first token, p99", at_most=3),
    Target(
        "first_token_added_litellm_over_ours",
        "ms added to the first token, LiteLLM's times ours",
        at_least=10,
    ),
    Target("streams_slipstream_num_open", "streams open at once in one process", at_least=3000),
    Target("streams_slipstream_kib_per_stream", "KiB of memory a stream, above idle", at_most=60),
    Target("workers_2_over_1", "throughput of two processes, times one's", at_least=1.05),
    Target("long_prompt_slipstream_ratio", "CPU of a 150 KB prompt, times a 2 KB one's", at_most=3),
    Target("num_failed", "calls that failed, or whose reply was not whole", at_most=0),
)


def verdicts(figures: dict[str, float]) -> list[Verdict]:
    return [Verdict(target, figures[target.figure]) for target in TARGETS if target.figure in figures]
