"""When a step begins that nobody asked for (docs/decisions/0024). The rule is a function of frozen values.

Invariant: whoever explains why no step begins asks what the claim asks. The clock is Postgres'.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.groups.readiness import ReadyGroup
from ledger.hours import Hours
from ledger.vocabulary import StepWaitsFor

_SITUATION = text("""
    SELECT clock_timestamp() AS now, p.paused_at, p.paused_reason, v.version, v.published_at, (
        SELECT count(*) FROM step_requests AS r
        WHERE r.policy_id = p.id AND r.state = 'waiting'
            AND (p.paused_at IS NULL OR r.arguments -> 'even_if_paused' = 'true')
    ) AS num_requests
    FROM policies AS p
    LEFT JOIN LATERAL (
        SELECT version, published_at FROM policy_versions
        WHERE policy_id = p.id AND version > 0 AND published_at IS NOT NULL ORDER BY published_at DESC LIMIT 1
    ) AS v ON true
    WHERE p.id = :policy_id
""")


@dataclass(frozen=True, slots=True)
class Triggers:
    """Settings by their names, without prefix. A default is what a worker of a version without it did."""

    step_groups: int
    step_max_groups: int
    step_max_wait_seconds: float
    step_max_tokens: int = 65_536
    step_min_tokens: int = 0
    min_seconds_between_versions: float = 0.0
    train_hours: str = ""
    train_time_zone: str = "UTC"

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Triggers":
        """From what a worker told of its settings."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: settings[name] for name in names if name in settings})

    @property
    def floor(self) -> int:
        return min(self.step_min_tokens, self.step_max_tokens)

    @property
    def hours(self) -> Hours:
        return Hours.of(self.train_hours, self.train_time_zone)


@dataclass(frozen=True, slots=True)
class Situation:
    """Example: 3 groups are ready, the oldest since 12:00, with 240 tokens; version 7 became live at 11:58."""

    now: datetime
    num_ready: int = 0
    num_tokens: int = 0  # scored completion tokens that can be trained, of those ready
    waiting_since: datetime | None = None  # the oldest that is ready
    version: int | None = None  # the newest that became live
    published_at: datetime | None = None
    paused_at: datetime | None = None
    paused_reason: str | None = None
    num_requests: int = 0  # that wait for their step, and for no resumption


def read_situation(connection: Connection, policy_id: UUID, ready: Sequence[ReadyGroup]) -> Situation:
    row = connection.execute(_SITUATION, {"policy_id": policy_id}).one()
    return Situation(
        num_ready=len(ready),
        num_tokens=sum(group.num_tokens for group in ready),
        waiting_since=min((group.waiting_since for group in ready), default=None),
        **row._mapping,  # noqa: SLF001 - public, despite its underscore
    )


def waits_for(triggers: Triggers, situation: Situation) -> tuple[StepWaitsFor, ...]:
    """What the next step waits for; nothing = it is time for one."""
    is_old = _is_old(triggers, situation)
    conditions = {
        StepWaitsFor.GROUPS: not is_old and situation.num_ready < triggers.step_groups,
        StepWaitsFor.TOKENS: not is_old and not _has_tokens(triggers, situation),
        StepWaitsFor.HOURS: not triggers.hours.is_open(situation.now),
        StepWaitsFor.INTERVAL: (rested := _rested_at(triggers, situation)) is not None
        and situation.now < rested,
        StepWaitsFor.RESUMPTION: situation.paused_at is not None,
    }
    return tuple(word for word, holds in conditions.items() if holds)


def due_at(triggers: Triggers, situation: Situation) -> datetime | None:
    """When one begins if nothing more comes. None: not by itself. In the past: since then it is time."""
    if situation.waiting_since is None or situation.paused_at is not None:
        return None
    at = situation.waiting_since
    if not _has_enough(triggers, situation):
        at += timedelta(seconds=triggers.step_max_wait_seconds)
    at = max(at, _rested_at(triggers, situation) or at)
    hours = triggers.hours
    return (
        at if at <= situation.now and hours.is_open(situation.now) else hours.opening(max(at, situation.now))
    )


def what_is_missing(triggers: Triggers, situation: Situation) -> dict[str, Any]:
    """Why none begins now, as plans and `slipstream status` tell it; by itself only `waits_for` changes."""
    return {
        "waits_for": list(waits_for(triggers, situation)),
        "num_groups_needed": max(0, triggers.step_groups - situation.num_ready),
        "num_tokens": situation.num_tokens,
        "num_tokens_needed": max(0, triggers.floor - situation.num_tokens),
        "due_at": due_at(triggers, situation),
        "num_requests": situation.num_requests,
        "newest_version": situation.version,
        "published_at": situation.published_at,
        "paused_at": situation.paused_at,
        "paused_reason": situation.paused_reason,
    }


def _has_enough(triggers: Triggers, situation: Situation) -> bool:
    return situation.num_ready >= triggers.step_groups and _has_tokens(triggers, situation)


def _has_tokens(triggers: Triggers, situation: Situation) -> bool:
    """A full step has: waiting could not bring more."""
    return situation.num_tokens >= triggers.floor or situation.num_ready >= triggers.step_max_groups


def _is_old(triggers: Triggers, situation: Situation) -> bool:
    if situation.waiting_since is None:
        return False
    return (situation.now - situation.waiting_since).total_seconds() >= triggers.step_max_wait_seconds


def _rested_at(triggers: Triggers, situation: Situation) -> datetime | None:
    """None where nothing is to be waited for; a moment that is still to come was told by a clock that was wrong."""
    if situation.published_at is None or situation.published_at > situation.now:
        return None
    return situation.published_at + timedelta(seconds=triggers.min_seconds_between_versions)
