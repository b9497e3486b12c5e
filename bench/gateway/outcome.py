"""What a load was asked to do (`Load`) and what came of it (`Outcome`): they cross a process boundary as JSON."""

import json
from dataclasses import asdict, dataclass, field

MAX_FAULTS = 5  # told in words; all are counted


@dataclass(frozen=True)
class Load:
    """Closed loop: each connection sends its next request when the last is answered.

    Load(port=9, num_connections=8, num_calls=800, num_tokens=64) sends 100 requests on each of 8 connections.
    """

    port: int
    num_connections: int
    num_calls: int
    num_tokens: int
    prompt_bytes: int = 2048
    is_streamed: bool = False
    ramp_seconds: float = 0.0  # connections begin evenly over this time
    first_number: int = 0  # prompts are numbered from here
    limit_seconds: float = 120.0

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass
class Outcome:
    seconds: float = 0.0
    num_answered: int = 0
    num_failed: int = 0
    num_events: int = 0  # tokens of complete streams
    latency_ms: list[float] = field(default_factory=list)  # request sent to last byte
    first_token_ms: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def note_fault(self, fault: str) -> None:
        self.num_failed += 1
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(fault)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> "Outcome":
        return cls(**json.loads(text))
