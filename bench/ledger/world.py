"""A synthetic history as plain objects: who asked what when, what was answered, and who judged it how.

Invariant: the same plan gives the same world, and everything a query may be asked stands in it as a plain value, so
that a test can compute the right answer without SQL.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ledger.vocabulary import JUDGE_SOURCE

DAY_MS = 86_400_000
LINES = (("default", "default"), ("default", "support"), ("acme", "default"))  # project, policy
REFUSAL = "I'm sorry, but I can't help with that."


@dataclass(frozen=True, slots=True)
class Plan:
    """num_exchanges is a wish: the last task is whole."""

    num_exchanges: int
    until: datetime
    num_days: int = 120
    num_versions: int = 24  # of each policy
    num_users: int = 500
    num_prompts: int = 2_000
    seed: int = 7

    @property
    def until_ms(self) -> int:
        return int(self.until.timestamp() * 1000)

    @property
    def bad_version(self) -> int:
        """Of the first line: the model got worse there."""
        return self.num_versions * 7 // 8

    @property
    def since_ms(self) -> int:
        return self.until_ms - self.num_days * DAY_MS


@dataclass(slots=True)
class Reward:
    id: int
    at_ms: int
    trajectory: int | None  # None: early
    exchange: int | None
    metric: str
    value: float | None
    source: str
    comment: str | None = None
    is_retraction: bool = False
    target: int = 0


@dataclass(slots=True)
class Exchange:
    id: int
    at_ms: int
    turn: int
    version: int | None
    endpoint: str
    status: str
    num_prompt_tokens: int
    num_completion_tokens: int
    total_seconds: float
    reason: str | None = None
    text: str = ""
    tool_call: str | None = None  # its id, where the answer is one
    finish_reason: str | None = "stop"
    choice_index: int = 0
    num_retries: int = 0
    retry_of: int | None = None
    parent: int | None = None
    error: str | None = None

    @property
    def first_token_seconds(self) -> float:
        return self.total_seconds / 8


@dataclass(slots=True)
class Trajectory:
    id: int
    line: int  # which of LINES
    user: str
    prompt: str
    choice_index: int = 0
    exchanges: list[Exchange] = field(default_factory=list)
    rewards: list[Reward] = field(default_factory=list)
    is_grouped: bool = False
    is_shadow: bool = False  # sampled by the worker as a sibling of the first of its task

    def counted(self) -> list[Reward]:
        """The rewards that count, by the rule of docs/sql.md: of each judge and place the latest, not taken back;
        a judge's only where nobody else judged.
        """
        latest = {(r.source, r.exchange): r for r in self.rewards if r.metric == "reward" and r.trajectory}
        counted = [r for r in latest.values() if not r.is_retraction and r.value is not None]
        return [r for r in counted if r.source != JUDGE_SOURCE] or counted

    def reward(self) -> float | None:
        counted = self.counted()
        return sum(r.value or 0 for r in counted) / len(counted) if counted else None

    def version(self) -> int | None:
        return max((e.version for e in self.exchanges if e.version is not None), default=None)


@dataclass(slots=True)
class Sample:
    trajectory: Trajectory
    exchange: Exchange
    reward: float | None
    baseline: float
    staleness: int
    reason: str | None


@dataclass(slots=True)
class Step:
    id: int
    line: int
    version: int
    at_ms: int
    samples: list[tuple[int, Sample]] = field(default_factory=list)  # with the group's id
    num_groups: int = 0


@dataclass(slots=True)
class Task:
    """One group with its trajectories, which attempted the same task at about the same time."""

    id: int
    line: int
    at_ms: int
    kind: str
    key: str
    trajectories: list[Trajectory]
    state: str = "open"
    reason: str | None = None
    step: Step | None = None

    def members(self) -> list[Trajectory]:
        return [t for t in self.trajectories if t.is_grouped]


def moment(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
