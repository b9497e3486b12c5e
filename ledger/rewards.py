"""Rewards: append-only judgements, each written once, whoever posts it and how often (I5).

Post one reward per transaction, and answer after its commit. Locks are taken in one order: the project's (only while
the target is unknown), the idempotency id's, the judgement's. A later judgement always has a later id.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, false, func, insert, select, text

from ledger.erasure.rewards import without_words
from ledger.errors import LedgerError, RewardOutOfRangeError
from ledger.groups import is_group_ready
from ledger.identifiers import new_id
from ledger.judgements import same_judgement, same_post
from ledger.recording_lock import lock_early
from ledger.tables import exchanges, policies, projects, reward_events, trajectories
from ledger.targets import Judged, canonical, hold, resolve
from ledger.text import to_name, to_storable, to_storable_text
from ledger.vocabulary import REWARD_METRIC, NotCounted

_REWARDS = text("""
    SELECT trajectory_id, avg(value) AS reward FROM v1.rewards
    WHERE trajectory_id = ANY (CAST(:ids AS uuid[])) AND is_counted GROUP BY trajectory_id
""")


@dataclass(frozen=True, slots=True)
class RewardPost:
    """One judgement as posted. Example: RewardPost("chatcmpl-0197…", value=1.0, choice=2)."""

    target: str
    metric: str = REWARD_METRIC
    value: float | None = None
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
class RewardResult:
    event_id: UUID
    status: Literal["recorded", "unchanged", "early"]
    trajectory_id: UUID | None
    exchange_id: UUID | None
    group_is_ready: bool
    not_counted_reason: NotCounted | None = None  # None: it counts
    note: str | None = None  # the same in words, where it does not count


def post_reward(connection: Connection, project: str, post: RewardPost) -> RewardResult:
    """Write a judgement, unless it is what stands already."""
    _check_value(post)
    project_id = _project_id(connection, project)
    judged = _judged(connection, project_id, post)
    group_id, is_erased = _check_range(connection, project_id, judged, post)
    event = _event(post, project_id, judged)
    if judged and is_erased:
        event |= without_words(judged.trajectory_id, judged.exchange_id, event["source"])
    standing = same_post(connection, event) or same_judgement(connection, event)
    if standing is None:
        standing = event
        connection.execute(insert(reward_events).values(event))
        status: Literal["recorded", "unchanged"] = "recorded"
    else:
        status = "unchanged"
    return RewardResult(
        event_id=standing["id"],
        status=status if judged else "early",
        trajectory_id=judged.trajectory_id if judged else None,
        exchange_id=judged.exchange_id if judged else None,
        group_is_ready=group_id is not None and is_group_ready(connection, group_id),
    )


def trajectory_rewards(connection: Connection, trajectory_ids: Sequence[UUID]) -> dict[UUID, float]:
    """The reward of each trajectory that has one: the mean of the events that count (see v1.rewards)."""
    rows = connection.execute(_REWARDS, {"ids": list(trajectory_ids)})
    return {row.trajectory_id: row.reward for row in rows}


def _judged(connection: Connection, project_id: UUID, post: RewardPost) -> Judged | None:
    """What the post is about, held until the commit: its trajectory does not become part of another meanwhile."""
    judged = _meant(connection, project_id, post)
    if judged is None:
        lock_early(connection, project_id)
        judged = _meant(connection, project_id, post)
    if judged and not hold(connection, judged):  # it just became part of another
        return _judged(connection, project_id, post)
    return judged


def _meant(connection: Connection, project_id: UUID, post: RewardPost) -> Judged | None:
    judged = resolve(connection, project_id, post.target, post.choice)
    return Judged(judged.trajectory_id) if judged and post.is_whole else judged


def _check_value(post: RewardPost) -> None:
    if post.value is not None and not math.isfinite(post.value):
        raise RewardOutOfRangeError("The reward must be a finite number.")


def _project_id(connection: Connection, project: str) -> UUID:
    found: UUID | None = connection.scalar(select(projects.c.id).where(projects.c.name == project))
    if found is None:
        raise LedgerError(f"there is no project {project!r}: `slipstream keys` lists them")
    return found


def _check_range(
    connection: Connection, project_id: UUID, judged: Judged | None, post: RewardPost
) -> tuple[UUID | None, bool]:
    """The group of the trajectory, where known, and whether it, or the exchange, was erased.

    An early reward has to fit some policy of the project, and is checked again by v1.rewards when it is reconciled.
    """
    if judged is None:
        ranges = select(func.min(policies.c.reward_min), func.max(policies.c.reward_max))
        _require_within(post, *connection.execute(ranges.where(policies.c.project_id == project_id)).one())
        return None, False
    row = connection.execute(
        select(
            policies.c.reward_min,
            policies.c.reward_max,
            trajectories.c.group_id,
            (trajectories.c.erased_at.is_not(None) | _is_turn_erased(judged)).label("is_erased"),
        )
        .join_from(trajectories, policies, policies.c.id == trajectories.c.policy_id)
        .where(trajectories.c.id == judged.trajectory_id)
    ).one()
    _require_within(post, row.reward_min, row.reward_max)
    return row.group_id, row.is_erased


def _is_turn_erased(judged: Judged) -> ColumnElement[bool]:
    if judged.exchange_id is None:
        return false()
    of = exchanges.c
    return select(of.id).where(of.id == judged.exchange_id, of.erased_at.is_not(None)).exists()


def _require_within(post: RewardPost, smallest: float | None, largest: float | None) -> None:
    """Both bounds are None for a project without policies."""
    if post.metric != REWARD_METRIC or post.value is None or smallest is None or largest is None:
        return
    if not smallest <= post.value <= largest:
        raise RewardOutOfRangeError(
            f"The reward {post.value} is outside the policy's range, {smallest} to {largest}."
        )


def _event(post: RewardPost, project_id: UUID, judged: Judged | None) -> dict[str, Any]:
    return {
        "id": new_id(),
        "project_id": project_id,
        "target": canonical(post.target, post.choice),
        "trajectory_id": judged and judged.trajectory_id,
        "exchange_id": judged and judged.exchange_id,
        "metric": to_name(post.metric),
        "value": post.value,
        "content": to_storable(post.content),
        "comment": None if post.comment is None else to_storable_text(post.comment),
        "source": to_name(post.source),
        "is_retraction": post.is_retraction,
        "idempotency_id": to_name(post.idempotency_id) if post.idempotency_id else None,
        "observed_at": post.observed_at or datetime.now(UTC),
        "key_id": post.key_id,
        "is_final": post.is_final,
        "is_whole": post.is_whole,
        "comparison_id": post.comparison_id,
    }
