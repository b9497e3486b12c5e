"""The advantage ladder: what each usable member of a step's groups is compared with (docs/decisions/0015). Pure.

Invariant: members of different routes share no baseline, and the choice among the rungs never depends on a reward.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from ledger.conversation import WholeExchange
from ledger.vocabulary import BaselineKind, GroupKind, Reason
from trainer.grpo.advantages import (
    MIN_MEMBERS,
    Compared,
    Running,
    baseline_for,
    group_baselines,
    running_baselines,
    scale_of,
)
from trainer.rewards import Judged
from trainer.settings import TrainerSettings

KINDS = {
    GroupKind.EXPLICIT: BaselineKind.EXPLICIT_GROUP,
    GroupKind.CHOICES: BaselineKind.CHOICES_GROUP,
    GroupKind.PROMPT: BaselineKind.PROMPT_GROUP,
    GroupKind.COMPARISON: BaselineKind.COMPARISON_GROUP,
}
Beside = Mapping[str, Sequence[float]]  # by route


@dataclass(frozen=True, slots=True)
class Member:
    """A trajectory of a group as the step found it."""

    trajectory_id: UUID
    judged: Judged
    exchanges: Sequence[WholeExchange]
    route: str | None = None  # None: recorded before there were routes


@dataclass(frozen=True, slots=True)
class Usable:
    """What a member brings to a baseline: the mean reward of its exchanges that can be trained, each with its own.

    Example: turns rewarded 1 and 0, a third that nobody judged -> 0.5, whatever the policy combines them to.
    """

    trajectory_id: UUID
    route: str | None
    reward: float


@dataclass(frozen=True, slots=True)
class Stored:
    """What an earlier group of the same key was trained with. Example: Stored(0.25, 4)."""

    reward_mean: float
    num_scored: int


@dataclass(frozen=True, slots=True)
class Group:
    """A claimed group as the step found it."""

    id: UUID
    kind: GroupKind
    route: str | None
    members: Sequence[Member]
    stored: Mapping[str | None, Stored] = field(default_factory=dict)  # by the route of a member


@dataclass(frozen=True, slots=True)
class Rung:
    """Where a member stands on the ladder. `reason`: there is nothing to compare it with."""

    kind: BaselineKind | None = None
    compared: Compared | None = None
    reason: Reason | None = None


def rungs(
    groups: Sequence[Group],
    usable: Mapping[UUID, Sequence[Usable]],
    running: Mapping[str, Running],
    settings: TrainerSettings,
    beside: Beside,
) -> dict[UUID, Rung]:
    """The rung of each usable member (`usable`: by group), by trajectory."""
    found: dict[UUID, Rung] = {}
    lone: dict[str | None, list[Usable]] = defaultdict(list)
    for group in groups:
        for route, members in by_route(usable[group.id]).items():
            if len(members) >= MIN_MEMBERS:
                found |= _in_group(group.kind, members, settings)
            elif stored := group.stored.get(route):
                found[members[0].trajectory_id] = _stored(stored, running.get(route or ""), settings)
            else:
                lone[route] += members
    for route, members in lone.items():
        found |= _on_route(route, members, running, settings, beside.get(route or "", ()))
    return found


def by_route(members: Sequence[Usable]) -> dict[str | None, list[Usable]]:
    found: dict[str | None, list[Usable]] = defaultdict(list)
    for member in members:
        found[member.route].append(member)
    return found


def _in_group(kind: GroupKind, members: Sequence[Usable], settings: TrainerSettings) -> dict[UUID, Rung]:
    baseline = baseline_for(kind, settings.baseline)
    compared = group_baselines(_rewards(members), baseline, is_scaled_by_std=settings.scale_by_std)
    return {
        member.trajectory_id: Rung(KINDS[kind], each) for member, each in zip(members, compared, strict=True)
    }


def _stored(stored: Stored, running: Running | None, settings: TrainerSettings) -> Rung:
    """No spread is stored with a group: that of the route stands for it where advantages are divided by one."""
    scale = scale_of(running.variance**0.5, running.mean) if running and settings.scale_by_std else 1.0
    compared = Compared(stored.reward_mean, stored.num_scored, scale)
    return Rung(BaselineKind.STORED_GROUP, compared)


def _on_route(
    route: str | None,
    members: Sequence[Usable],
    running: Mapping[str, Running],
    settings: TrainerSettings,
    beside: Sequence[float],
) -> dict[UUID, Rung]:
    """`beside`: lone rewards of the route that other steps will take; a baseline is no less of them."""
    if route is None or not settings.running_baseline:
        return {member.trajectory_id: Rung(reason=Reason.GROUP_INCOMPLETE) for member in members}
    compared = running_baselines(
        running.get(route),
        [*_rewards(members), *beside],
        settings.baseline_window,
        is_scaled_by_std=settings.scale_by_std,
    )
    return {
        member.trajectory_id: Rung(BaselineKind.RUNNING, each)
        if each and each.num_samples >= settings.baseline_min_samples
        else Rung(reason=Reason.NO_BASELINE)
        for member, each in zip(members, compared[: len(members)], strict=True)
    }


def _rewards(members: Sequence[Usable]) -> list[float]:
    return [member.reward for member in members]
