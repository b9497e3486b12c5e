"""What is posted, and what is answered: plain values, without a database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ledger.vocabulary import REWARD_METRIC, NotCounted


@dataclass(frozen=True, slots=True)
class RewardPost:
    """One judgement as posted. Example: RewardPost("chatcmpl-0197…", value=1.0, choice=2)."""

    target: str
    metric: str = REWARD_METRIC
    value: float | None = None  # a bool where true or false was sent: not every range takes them
    content: Any = None
    comment: str | None = None
    source: str = "user"
    idempotency_id: str | None = None
    observed_at: datetime | None = None
    choice: int | None = None
    is_retraction: bool = False
    key_id: UUID | None = None  # of who posts; None: no key was needed
    is_final: bool = True  # False: more is to come, and the group waits for it
    is_whole: bool = False  # it judges the whole trajectory, though the target is a reply's id
    comparison_id: UUID | None = None  # the comparison that it is one half of


@dataclass(frozen=True, slots=True)
class Posting:
    """Posts of one project that are written all or none: mostly one; a comparison has two."""

    project: str
    posts: Sequence[RewardPost]


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What a retraction took back. Example: TakenBack(event, 1.0): a thumbs-up."""

    event_id: UUID
    value: float | None


@dataclass(frozen=True, slots=True)
class RewardResult:
    event_id: UUID | None  # None: a retraction of what nobody said, which is not written
    status: Literal["recorded", "unchanged", "early"]
    trajectory_id: UUID | None
    exchange_id: UUID | None
    group_is_ready: bool
    not_counted_reason: NotCounted | None = None  # None: it counts
    note: str | None = None  # the same in words, where it does not count
    taken_back: TakenBack | None = None
