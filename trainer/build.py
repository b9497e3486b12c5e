"""From claimed groups to samples: reads the ledger, decides, and freezes the decision in `step_samples`.

Invariant (I9): once built, a step reads rewards and advantages from `step_samples` only; both a first attempt and a
resumed one get their samples from `read_samples`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from uuid import UUID

from sqlalchemy import Connection, insert, text

from ledger.conversation import WholeExchange, whole_exchanges
from ledger.rewards import trajectory_rewards
from ledger.tables import step_samples
from ledger.vocabulary import GroupKind, Reason
from trainer.claim import Step
from trainer.grpo.packing import num_packed_tokens
from trainer.grpo.samples import Sample, merge_turns
from trainer.settings import TrainerSettings
from trainer.transitions import CLOSE_SOME, GIVE_BACK
from trainer.verdicts import Member, SampleRow, as_turn, judge_group

GROUPS = text(
    "SELECT id, kind FROM groups WHERE step_id = :step_id AND state = 'claimed' ORDER BY created_at, id"
)
MEMBERS = text("SELECT id, group_id FROM trajectories WHERE group_id = ANY(:group_ids) ORDER BY id")
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


def read_batch(connection: Connection, step: Step, settings: TrainerSettings) -> Batch:
    """Decide about every exchange of the step's groups; nothing is written."""
    groups = [(row.id, GroupKind(row.kind)) for row in connection.execute(GROUPS, {"step_id": step.id})]
    members = _members(connection, [group_id for group_id, _ in groups])
    batch, num_tokens = Batch(), 0
    for group_id, kind in groups:
        rows = judge_group(group_id, kind, members[group_id], step.parent_version, settings)
        new = num_packed_tokens(_samples_of(rows, members[group_id]))
        if num_tokens and num_tokens + new > settings.step_max_tokens:
            batch.postponed.append(group_id)
            continue
        num_tokens += new
        batch.rows += rows
        batch.empty += [] if rows else [group_id]
    return batch


def write_batch(connection: Connection, step: Step, batch: Batch) -> None:
    """Freeze the decision: every row, groups that teach nothing closed, groups over the budget open again."""
    if batch.rows:
        connection.execute(insert(step_samples), [{"step_id": step.id, **asdict(row)} for row in batch.rows])
    for group_id, reason in batch.silent_groups.items():
        values = {"id": step.id, "group_ids": [group_id], "reason": reason}
        connection.execute(CLOSE_SOME, values)
    connection.execute(GIVE_BACK, {"id": step.id, "group_ids": batch.postponed})


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


def _members(connection: Connection, group_ids: list[UUID]) -> dict[UUID, list[Member]]:
    rows = connection.execute(MEMBERS, {"group_ids": group_ids}).all()
    trajectory_ids = [row.id for row in rows]
    rewards = trajectory_rewards(connection, trajectory_ids)
    exchanges = whole_exchanges(connection, trajectory_ids)
    members: dict[UUID, list[Member]] = defaultdict(list)
    for row in rows:
        members[row.group_id].append(Member(row.id, rewards.get(row.id), exchanges.get(row.id, [])))
    return members


def _samples_of(rows: Sequence[SampleRow], members: Sequence[Member]) -> list[Sample]:
    used = {row.exchange_id: row.advantage or 0.0 for row in rows if row.is_used}
    return [sample for member in members for sample in _merged(member.exchanges, used)]


def _merged(exchanges: Sequence[WholeExchange], advantages: dict[UUID, float]) -> list[Sample]:
    used = [exchange for exchange in exchanges if exchange.exchange_id in advantages]
    return merge_turns(as_turn(exchange, advantages[exchange.exchange_id]) for exchange in used)
