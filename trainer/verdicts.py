"""What a step makes of each exchange of its groups: used with an advantage, or not used with a reason (I10). Pure.

Invariant: every exchange of every member gets exactly one row. What cannot be used is taken out before the baseline, which
is of the exchanges' own rewards, as they are compared with it: equal ones teach nothing, however the policy combines them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from ledger.answers import CUT_OFF
from ledger.conversation import WholeExchange
from ledger.vocabulary import BaselineKind, Reason
from trainer.grpo.advantages import Running, mean_of
from trainer.grpo.samples import Turn, turn_defect
from trainer.ladder import Beside, Group, Member, Rung, Usable, rungs
from trainer.settings import TrainerSettings

Defects = dict[UUID, Reason | None]


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A row of step_samples without its step."""

    exchange_id: UUID
    trajectory_id: UUID
    group_id: UUID
    reward: float | None
    trajectory_reward: float | None
    reward_event_ids: list[UUID]
    baseline: float | None
    baseline_kind: BaselineKind | None
    num_baseline_samples: int | None
    advantage: float | None
    staleness: int | None  # None: another provider answered
    num_completion_tokens: int
    is_used: bool
    reason: Reason | None


def judge_groups(
    groups: Sequence[Group],
    defects: Defects,
    running: Mapping[str, Running],
    parent_version: int,
    settings: TrainerSettings,
    beside: Beside | None = None,
) -> dict[UUID, list[SampleRow]]:
    """By group, a row for each exchange of its members, in the members' order."""
    usable = {group.id: usable_members(group, defects) for group in groups}
    found = rungs(groups, usable, running, settings, beside or {})
    rows = {}
    for group in groups:
        silent = _without_signal(group, found, defects)
        rows[group.id] = [
            _row(group.id, member, exchange, found.get(member.trajectory_id, Rung()), reason, parent_version)
            for member in group.members
            for exchange in member.exchanges
            for reason in [_reason(member, exchange, found, defects, silent)]
        ]
    return rows


def defects_of(groups: Sequence[Group], live_version: int, settings: TrainerSettings) -> Defects:
    return {
        exchange.exchange_id: exchange_defect(exchange, live_version, settings)
        for group in groups
        for member in group.members
        for exchange in member.exchanges
    }


def usable_members(group: Group, defects: Defects) -> list[Usable]:
    """Those with an exchange that is scored and can be learned from."""
    return [
        Usable(member.trajectory_id, member.route, mean_of(rewards))
        for member in group.members
        if (rewards := _usable_rewards(member, defects))
    ]


def _usable_rewards(member: Member, defects: Defects) -> list[float]:
    judged = member.judged.of_exchanges
    ids = [exchange.exchange_id for exchange in member.exchanges]
    return [judged[id_].reward for id_ in ids if id_ in judged and defects[id_] is None]


def exchange_defect(exchange: WholeExchange, live_version: int, settings: TrainerSettings) -> Reason | None:
    """Why this exchange cannot be learned from, whatever its reward; None = it can."""
    if not exchange.is_trainable:
        return Reason(str(exchange.untrainable_reason))
    if abs(live_version - _version_of(exchange)) > settings.max_staleness:
        return Reason.TOO_STALE
    if exchange.finish_reason in CUT_OFF and not settings.train_truncated:
        return Reason.TRUNCATED
    if exchange.is_reshaped and not settings.train_reshaped:
        return Reason.RESHAPED
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
        is_reshaped=exchange.is_reshaped,
    )


def _without_signal(group: Group, found: Mapping[UUID, Rung], defects: Defects) -> set[str | None]:
    """Routes of the group's members whose advantages are all exactly 0."""
    loud = {
        member.route
        for member in group.members
        for exchange in member.exchanges
        if defects[exchange.exchange_id] is None
        and _advantage(member, exchange, found.get(member.trajectory_id, Rung()))
    }
    return {member.route for member in group.members} - loud


def _reason(
    member: Member,
    exchange: WholeExchange,
    found: Mapping[UUID, Rung],
    defects: Defects,
    silent: set[str | None],
) -> Reason | None:
    rung = found.get(member.trajectory_id, Rung(reason=Reason.UNSCORED))
    if reason := defects[exchange.exchange_id] or rung.reason:
        return reason
    if exchange.exchange_id not in member.judged.of_exchanges:
        return Reason.UNSCORED
    return Reason.NO_VARIANCE if member.route in silent else None


def _advantage(member: Member, exchange: WholeExchange, rung: Rung) -> float | None:
    judged = member.judged.of_exchanges.get(exchange.exchange_id)
    return None if judged is None or rung.compared is None else rung.compared.advantage(judged.reward)


def _row(
    group_id: UUID,
    member: Member,
    exchange: WholeExchange,
    rung: Rung,
    reason: Reason | None,
    parent_version: int,
) -> SampleRow:
    judged = member.judged.of_exchanges.get(exchange.exchange_id)
    return SampleRow(
        exchange_id=exchange.exchange_id,
        trajectory_id=member.trajectory_id,
        group_id=group_id,
        reward=judged.reward if judged else None,
        trajectory_reward=member.judged.reward,
        reward_event_ids=list(judged.event_ids) if judged else [],
        baseline=rung.compared.baseline if rung.compared else None,
        baseline_kind=rung.kind,
        num_baseline_samples=rung.compared.num_samples if rung.compared else None,
        advantage=_advantage(member, exchange, rung),
        staleness=None if exchange.version is None else parent_version - exchange.version,
        num_completion_tokens=len(exchange.completion_ids or ()),
        is_used=reason is None,
        reason=reason,
    )
