"""From claimed groups to samples: reads the ledger, decides, and freezes the decision in `step_samples`.

Invariant (I9): once built, a step reads rewards and advantages from `step_samples` only; both a first attempt and a
resumed one get their samples from `read_samples`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, insert, text

from ledger.conversation import WholeExchange, whole_exchanges
from ledger.groups.readiness import lone_groups
from ledger.tables import step_samples
from ledger.vocabulary import Reason
from trainer.baselines import Seen, move_running, read_running
from trainer.claim import Step
from trainer.groups import claimed_groups, found_groups
from trainer.grpo.advantages import Running, mean_of
from trainer.grpo.prefixes import num_packed_tokens
from trainer.grpo.samples import Sample, merge_turns
from trainer.ladder import Group, Member
from trainer.rewards import read_rules, record_rules
from trainer.settings import TrainerSettings
from trainer.transitions import CLOSE_SOME, GIVE_BACK
from trainer.verdicts import Defects, SampleRow, as_turn, defects_of, judge_groups, usable_members

STORE = text("UPDATE groups SET reward_mean = :reward_mean, num_scored = :num_scored WHERE id = :id")
USED = text(
    "SELECT exchange_id, trajectory_id, advantage FROM step_samples WHERE step_id = :step_id AND is_used"
)
LEAVE_OUT_ERASED = text(
    "UPDATE step_samples AS s SET is_used = false, reason = 'erased' FROM exchanges AS e"
    " WHERE s.step_id = :step_id AND s.is_used AND e.id = s.exchange_id AND e.untrainable_reason = 'erased'"
)


@dataclass(slots=True)
class Batch:
    """What a step was built from: a row per exchange, the groups that have none, and those over its token budget."""

    rows: list[SampleRow] = field(default_factory=list)
    empty: list[UUID] = field(default_factory=list)  # their exchanges are gone
    postponed: list[UUID] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)  # what moves the running baselines
    running: dict[str, Running] = field(default_factory=dict)  # as they were read
    stored: dict[UUID, list[float]] = field(
        default_factory=dict
    )  # rewards that late members are compared with
    rules: dict[str, Any] = field(default_factory=dict)  # by which judgements were rewards

    @property
    def silent_groups(self) -> dict[UUID, str]:
        """Groups of which nothing is used, with the reason that most of their exchanges have."""
        reasons: dict[UUID, list[str]] = defaultdict(list)
        for row in self.rows:
            reasons[row.group_id].append(row.reason or "")
        return dict.fromkeys(self.empty, str(Reason.GROUP_INCOMPLETE)) | {
            group_id: max(sorted(set(found)), key=found.count)
            for group_id, found in reasons.items()
            if all(found)
        }


def read_batch(
    connection: Connection, step: Step, settings: TrainerSettings, group_ids: Sequence[UUID] | None = None
) -> Batch:
    """Decide about every exchange of the step's groups (or of these); nothing is written, nothing is locked.

    Several statements read rewards: `connection` is a snapshot, or they could be of several moments.
    """
    ids = claimed_groups(connection, step.id) if group_ids is None else list(group_ids)
    groups = found_groups(connection, ids)
    routes = {member.route for group in groups for member in group.members if member.route is not None}
    running = read_running(connection, step.policy_id, routes)
    defects = defects_of(groups, step.live_version, settings)
    rows = judge_groups(groups, defects, running, step.parent_version, settings)
    if beside := _beside(connection, step, settings, groups, rows):
        rows = judge_groups(groups, defects, running, step.parent_version, settings, beside)
    postponed = _over_budget(groups, rows, settings.step_max_tokens)
    # What is kept was compared with them all the same.
    groups = [group for group in groups if group.id not in postponed]
    batch = Batch(
        rows=[row for group in groups for row in rows[group.id]],
        empty=[group.id for group in groups if not rows[group.id]],
        postponed=postponed,
        running=running,
        rules=read_rules(connection, step.policy_id),
    )
    _note_seen(batch, groups, defects)
    return batch


def write_batch(connection: Connection, step: Step, batch: Batch, settings: TrainerSettings) -> None:
    """Freeze the decision: every row, the baselines that it moves, groups that teach nothing closed, groups over the
    budget open again.
    """
    if batch.rows:
        connection.execute(insert(step_samples), [{"step_id": step.id, **asdict(row)} for row in batch.rows])
    move_running(connection, step, batch.seen, batch.running, settings.baseline_window)
    for group_id, rewards in batch.stored.items():
        values = {"id": group_id, "reward_mean": mean_of(rewards), "num_scored": len(rewards)}
        connection.execute(STORE, values)
    for group_id, reason in batch.silent_groups.items():
        values = {"id": step.id, "group_ids": [group_id], "reason": reason}
        connection.execute(CLOSE_SOME, values)
    connection.execute(GIVE_BACK, {"id": step.id, "group_ids": batch.postponed})
    record_rules(connection, step.id, step.fencing_token, batch.rules)


def read_samples(connection: Connection, step: Step) -> list[Sample]:
    """The samples of a built step, in the order of their trajectories. What was erased since then is none any more."""
    connection.execute(LEAVE_OUT_ERASED, {"step_id": step.id})
    advantages: dict[UUID, dict[UUID, float]] = defaultdict(dict)
    for row in connection.execute(USED, {"step_id": step.id}):
        advantages[row.trajectory_id][row.exchange_id] = row.advantage
    exchanges = whole_exchanges(connection, sorted(advantages))
    return [
        sample
        for trajectory_id in sorted(advantages)
        for sample in _merged(exchanges[trajectory_id], advantages[trajectory_id])
    ]


def _beside(
    connection: Connection,
    step: Step,
    settings: TrainerSettings,
    groups: Sequence[Group],
    rows: Mapping[UUID, Sequence[SampleRow]],
) -> dict[str, list[float]]:
    """The rewards that readiness counted on and the step did not take (its limit, a lock), for routes that lack them."""
    no_baseline = {
        row.trajectory_id for of in rows.values() for row in of if row.reason is Reason.NO_BASELINE
    }
    members = [member for group in groups for member in group.members]
    routes = {m.route for m in members if m.route is not None and m.trajectory_id in no_baseline}
    if not routes:
        return {}
    taken, limit = [group.id for group in groups], settings.baseline_min_samples
    ids = lone_groups(connection, step.policy_id, settings.readiness(), routes, taken=taken, limit=limit)
    others = found_groups(connection, ids)
    defects = defects_of(others, step.live_version, settings)
    found: dict[str, list[float]] = defaultdict(list)
    for usable in (each for group in others for each in usable_members(group, defects)):
        found[usable.route or ""].append(usable.reward)
    return found


def _over_budget(groups: Sequence[Group], rows: dict[UUID, list[SampleRow]], max_tokens: int) -> list[UUID]:
    """Groups for which the step has no room; the first one always has."""
    postponed, num_tokens = [], 0
    for group in groups:
        new = num_packed_tokens(_samples_of(rows[group.id], group.members))
        if num_tokens and num_tokens + new > max_tokens:
            postponed.append(group.id)
        else:
            num_tokens += new
    return postponed


def _note_seen(batch: Batch, groups: Sequence[Group], defects: Defects) -> None:
    for group in groups:
        seen = [
            Seen(member.trajectory_id, group.id, member.route, member.reward)
            for member in usable_members(group, defects)
        ]
        batch.seen += seen
        if own := [each.reward for each in seen if each.route == group.route]:
            batch.stored[group.id] = own


def _samples_of(rows: Sequence[SampleRow], members: Sequence[Member]) -> list[Sample]:
    used = {row.exchange_id: row.advantage or 0.0 for row in rows if row.is_used}
    return [sample for member in members for sample in _merged(member.exchanges, used)]


def _merged(exchanges: Sequence[WholeExchange], advantages: dict[UUID, float]) -> list[Sample]:
    used = [exchange for exchange in exchanges if exchange.exchange_id in advantages]
    return merge_turns(as_turn(exchange, advantages[exchange.exchange_id]) for exchange in used)
