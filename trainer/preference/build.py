"""From comparisons to pairs: read, checked, and frozen as a row of `step_samples` for each exchange of a pair.

Invariant (I9): an event knows its comparison and its side, so the events that a row names are its pairs, whatever is said
later. What was erased since takes its pairs along.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import Connection

from ledger.answers import Answer
from ledger.rewards.reading import trajectory_rewards
from ledger.vocabulary import LeftOut, Reason
from ledger.wishes import DpoWish, dpo_wish
from trainer.claim import Step
from trainer.errors import BatchError
from trainer.grpo.samples import Sample, Turn, merge_turns
from trainer.imitation.rows import LearnedRow, freeze, leave_out_erased, read_frozen, staleness_of
from trainer.material import Material, Pair
from trainer.preference.comparisons import Compared, Side, find_compared, read_compared
from trainer.settings import TrainerSettings


@dataclass(slots=True)
class Preference:
    """What a step of dpo was built from."""

    wish: DpoWish
    rows: list[LearnedRow] = field(default_factory=list)
    num_found: int = 0
    num_pairs: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def wish_of(step: Step) -> DpoWish:
    return dpo_wish(step.settings["dpo"])


def read_batch(connection: Connection, step: Step, settings: TrainerSettings) -> Preference:
    """Decide about every comparison; nothing is written."""
    batch = Preference(wish_of(step))
    found = find_compared(connection, step.policy_id, batch.wish.since, settings.sample_max_tokens)
    batch.num_found = len(found)
    pairs = [each for each in found if each.sides]
    batch.left_out.update(str(each.reason) for each in found if each.reason)
    if over := len(pairs[settings.sft_max_samples :]):
        batch.left_out[LeftOut.OVER_LIMIT] = over
    batch.num_pairs = len(pairs) - over
    used = pairs[: batch.num_pairs]
    ids = {answer.trajectory_id for pair in used for side in pair.sides for answer in side.answers}
    batch.rows = _rows(used, step.parent_version, trajectory_rewards(connection, sorted(ids)))
    return batch


def write_batch(connection: Connection, step: Step, batch: Preference, settings: TrainerSettings) -> None:
    """`settings` as every kind's; nothing of them is written."""
    del settings
    freeze(connection, step.id, batch.rows)


def read_material(connection: Connection, step: Step, settings: TrainerSettings) -> Material:
    """The pairs of a built step, in the order of their ids. Raises BatchError where one cannot be learned from any more."""
    frozen = read_frozen(connection, step.id)
    event_ids = sorted({id_ for one in frozen for id_ in one.event_ids})
    found = read_compared(connection, step.policy_id, event_ids, settings.sample_max_tokens)
    for each in found:
        if each.reason not in (None, Reason.ERASED, Reason.MISSING_TOKEN_IDS):
            raise BatchError(f"comparison {each.comparison_id} can be learned from no more: {each.reason}")
    kept = {a.exchange_id for each in found for side in each.sides for a in side.answers}
    leave_out_erased(connection, step.id, [one.exchange_id for one in frozen if one.exchange_id not in kept])
    return _material(found)


def _rows(pairs: Sequence[Compared], parent_version: int, rewards: Mapping[UUID, float]) -> list[LearnedRow]:
    """`rewards`: of whole trajectories, as they are now."""
    events: dict[UUID, list[UUID]] = {}
    values: dict[UUID, list[float]] = {}
    answers: dict[UUID, Answer] = {}
    for pair in pairs:
        for side, value in zip(pair.sides, (1.0, 0.0), strict=True):
            for answer in side.answers:
                answers[answer.exchange_id] = answer
                events.setdefault(answer.exchange_id, []).append(side.event_id)
                values.setdefault(answer.exchange_id, []).append(value)
    return [
        LearnedRow(
            exchange_id=id_,
            trajectory_id=answer.trajectory_id,
            group_id=answer.group_id,
            reward=sum(values[id_]) / len(values[id_]),
            trajectory_reward=rewards.get(answer.trajectory_id),
            reward_event_ids=events[id_],
            advantage=None,
            staleness=staleness_of(answer, parent_version),
            num_completion_tokens=len(answer.completion_ids or ()),
            is_used=True,
            reason=None,
        )
        for id_, answer in sorted(answers.items())
    ]


def _material(found: Sequence[Compared]) -> Material:
    """A side that stands in several pairs is there once."""
    places: dict[tuple[UUID, ...], int] = {}
    sides: list[tuple[Sample, ...]] = []
    pairs = []
    for each in found:
        if not each.sides:
            continue
        at = []
        for side in each.sides:
            key = tuple(answer.exchange_id for answer in side.answers)
            if key not in places:
                places[key] = len(sides)
                sides.append(tuple(_samples_of(side)))
            at.append(places[key])
        pairs.append(Pair(each.comparison_id, at[0], at[1]))
    return Material(tuple(sample for side in sides for sample in side), tuple(sides), tuple(pairs))


def _samples_of(side: Side) -> list[Sample]:
    return merge_turns(
        Turn(
            exchange_id=answer.exchange_id,
            version=answer.version or 0,
            prompt_ids=answer.prompt_ids or (),
            completion_ids=answer.completion_ids or (),
            sampling_logprobs=[0.0] * len(answer.completion_ids or ()),
        )
        for answer in side.answers
    )
