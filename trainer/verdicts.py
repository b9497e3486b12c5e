"""What a step makes of each exchange of its groups: used with an advantage, or not used with a reason (I10). Pure.

Invariant: every exchange of every member gets exactly one row. What cannot be used is taken out before the baseline.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from ledger.conversation import WholeExchange
from ledger.vocabulary import BaselineKind, GroupKind, Reason
from trainer.grpo.advantages import MIN_MEMBERS, baseline_for, group_advantages
from trainer.grpo.samples import Turn, turn_defect
from trainer.settings import TrainerSettings

KINDS = {
    GroupKind.EXPLICIT: BaselineKind.EXPLICIT_GROUP,
    GroupKind.CHOICES: BaselineKind.CHOICES_GROUP,
    GroupKind.PROMPT: BaselineKind.PROMPT_GROUP,
}


@dataclass(frozen=True, slots=True)
class Member:
    """A trajectory of a group as the step found it."""

    trajectory_id: UUID
    reward: float | None
    exchanges: Sequence[WholeExchange]


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A row of step_samples without its step."""

    exchange_id: UUID
    trajectory_id: UUID
    group_id: UUID
    reward: float | None
    baseline: float | None
    baseline_kind: BaselineKind | None
    advantage: float | None
    staleness: int | None  # None: another provider answered
    num_completion_tokens: int
    is_used: bool
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class _Signal:
    """What the group says about one member; `reason` is why it teaches nothing."""

    baseline: float | None = None
    advantage: float | None = None
    reason: Reason | None = None


def judge_group(
    group_id: UUID,
    kind: GroupKind,
    members: Sequence[Member],
    parent_version: int,
    settings: TrainerSettings,
) -> list[SampleRow]:
    """Rows for all exchanges of the group's members, in the members' order."""
    defects = {
        exchange.exchange_id: exchange_defect(exchange, parent_version, settings)
        for member in members
        for exchange in member.exchanges
    }
    signals = _signals(kind, members, defects, settings)
    return [
        _row(group_id, KINDS[kind], member, exchange, signals[member.trajectory_id], defects, parent_version)
        for member in members
        for exchange in member.exchanges
    ]


def exchange_defect(exchange: WholeExchange, parent_version: int, settings: TrainerSettings) -> Reason | None:
    """Why this exchange cannot be learned from, whatever its reward; None = it can."""
    if not exchange.is_trainable:
        return Reason(str(exchange.untrainable_reason))
    if abs(parent_version - _version_of(exchange)) > settings.max_staleness:
        return Reason.TOO_STALE
    return turn_defect(as_turn(exchange, 0.0), settings.sample_max_tokens)


def _version_of(exchange: WholeExchange) -> int:
    assert exchange.version is not None, "only what a version produced is learned from"
    return exchange.version


def as_turn(exchange: WholeExchange, advantage: float) -> Turn:
    return Turn(
        exchange_id=exchange.exchange_id,
        version=_version_of(exchange),
        prompt_ids=exchange.prompt_ids or (),
        completion_ids=exchange.completion_ids or (),
        sampling_logprobs=exchange.sampling_logprobs or (),
        temperature=1.0 if exchange.temperature is None else exchange.temperature,
        advantage=advantage,
    )


def _signals(
    kind: GroupKind,
    members: Sequence[Member],
    defects: dict[UUID, Reason | None],
    settings: TrainerSettings,
) -> dict[UUID, _Signal]:
    usable = [
        member
        for member in members
        if member.reward is not None and any(defects[e.exchange_id] is None for e in member.exchanges)
    ]
    signals = {
        member.trajectory_id: _Signal(
            reason=Reason.UNSCORED if member.reward is None else Reason.GROUP_INCOMPLETE
        )
        for member in members
    }
    if len(usable) < MIN_MEMBERS:
        return signals
    found = group_advantages(
        [member.reward for member in usable if member.reward is not None],
        baseline_for(kind, settings.baseline),
        is_scaled_by_std=settings.scale_by_std,
    )
    reason = None if found.has_signal else Reason.NO_VARIANCE
    for member, baseline, advantage in zip(usable, found.baselines_G, found.advantages_G, strict=True):
        signals[member.trajectory_id] = _Signal(baseline, advantage, reason)
    return signals


def _row(
    group_id: UUID,
    kind: BaselineKind,
    member: Member,
    exchange: WholeExchange,
    signal: _Signal,
    defects: dict[UUID, Reason | None],
    parent_version: int,
) -> SampleRow:
    reason = defects[exchange.exchange_id] or signal.reason
    return SampleRow(
        exchange_id=exchange.exchange_id,
        trajectory_id=member.trajectory_id,
        group_id=group_id,
        reward=member.reward,
        baseline=signal.baseline,
        baseline_kind=None if signal.baseline is None else kind,
        advantage=signal.advantage,
        staleness=None if exchange.version is None else parent_version - exchange.version,
        num_completion_tokens=len(exchange.completion_ids or ()),
        is_used=reason is None,
        reason=reason,
    )
