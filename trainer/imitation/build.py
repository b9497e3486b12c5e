"""From a wish to samples: candidates read, each one's tokens made once to see that they can be, the choice frozen.

Invariant (I9): once built, a step imitates what `step_samples` says, by the events and exchanges that it names; only what was
erased meanwhile is left out.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.answers import Answer, read_answers
from ledger.rewards.reading import trajectory_rewards
from ledger.text import from_storable
from ledger.vocabulary import LeftOut, SftSource
from ledger.wishes import SftWish, sft_wish
from trainer.claim import Step
from trainer.errors import BatchError, SurroundingsError
from trainer.grpo.samples import Sample, Turn, merge_turns
from trainer.imitation.candidates import Candidate, find_candidates
from trainer.imitation.imitated import LeftOutError, imitated_turn
from trainer.imitation.rows import (
    Frozen,
    LearnedRow,
    freeze,
    leave_out_erased,
    read_frozen,
    reason_of,
    staleness_of,
)
from trainer.imitation.template import Template, template_of
from trainer.material import Material
from trainer.settings import TrainerSettings

_DEMONSTRATED = text("SELECT id, content FROM reward_events WHERE id = ANY (CAST(:ids AS uuid[]))")


@dataclass(slots=True)
class Imitation:
    """What a step of sft was built from."""

    wish: SftWish
    rows: list[LearnedRow] = field(default_factory=list)
    num_found: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def used(self) -> list[LearnedRow]:
        return [row for row in self.rows if row.is_used]


def wish_of(step: Step) -> SftWish:
    return sft_wish(step.settings["sft"])


def read_batch(connection: Connection, step: Step, settings: TrainerSettings) -> Imitation:
    """Decide about every candidate; nothing is written."""
    batch, template = Imitation(wish_of(step)), _template_of(wish_of(step), settings)
    candidates = find_candidates(connection, step.policy_id, batch.wish)
    rewards = trajectory_rewards(connection, [each.answer.trajectory_id for each in candidates])
    for candidate in candidates:
        batch.num_found += 1
        if len(batch.used) >= settings.sft_max_samples:
            batch.left_out[LeftOut.OVER_LIMIT] += 1
            continue
        reward = rewards.get(candidate.answer.trajectory_id)
        batch.rows.append(_row(candidate, reward, template, step, settings, batch.left_out))
    return batch


def write_batch(connection: Connection, step: Step, batch: Imitation, settings: TrainerSettings) -> None:
    """`settings` as every kind's; nothing of them is written."""
    del settings
    freeze(connection, step.id, batch.rows)


def read_material(connection: Connection, step: Step, settings: TrainerSettings) -> Material:
    """The samples of a built step, in the order of their exchanges' ids. Raises BatchError where the tokens are others now."""
    frozen, wish = read_frozen(connection, step.id), wish_of(step)
    template = _template_of(wish, settings)
    candidates, gone = _again(connection, step, frozen)
    leave_out_erased(connection, step.id, gone)
    turns = [
        (one, _same_turn(candidates[one.exchange_id], one, template, step, settings))
        for one in frozen
        if one.exchange_id in candidates
    ]
    return Material(tuple(_merged(turns)))


def _template_of(wish: SftWish, settings: TrainerSettings) -> Template | None:
    """Recorded ids need none, and a base without a tokenizer still learns from them. Raises BatchError: a step that waited for
    a tokenizer would hold back every other step of its policy, and whoever asked can ask again.
    """
    if wish.source is SftSource.BEST:
        return None
    try:
        return template_of(settings.base_model)
    except SurroundingsError as error:
        raise BatchError(str(error)) from error


def _row(
    candidate: Candidate,
    trajectory_reward: float | None,
    template: Template | None,
    step: Step,
    settings: TrainerSettings,
    left_out: Counter[str],
) -> LearnedRow:
    answer, num_tokens, reason = candidate.answer, 0, None
    try:
        turn = imitated_turn(candidate, template, step.parent_version, settings.sample_max_tokens)
        num_tokens = len(turn.completion_ids)
    except LeftOutError as error:
        left_out[error.reason] += 1
        reason = reason_of(error.reason)
    return LearnedRow(
        exchange_id=answer.exchange_id,
        trajectory_id=answer.trajectory_id,
        group_id=answer.group_id,
        reward=candidate.reward,
        trajectory_reward=trajectory_reward,
        reward_event_ids=list(candidate.event_ids),
        advantage=1.0,
        staleness=staleness_of(answer, step.parent_version),
        num_completion_tokens=num_tokens,
        is_used=reason is None,
        reason=reason,
    )


def _again(
    connection: Connection, step: Step, frozen: Sequence[Frozen]
) -> tuple[dict[UUID, Candidate], list[UUID]]:
    """The candidates of the frozen rows as they are now, and the exchanges that were erased."""
    answers = _answers_of(connection, step, frozen)
    contents = _contents(connection, step, frozen)
    candidates, gone = {}, []
    for one in frozen:
        answer = answers.get(one.exchange_id)
        is_demonstration = bool(contents is not None)
        content = (contents or {}).get(one.event_ids[0]) if is_demonstration else None
        if answer is None or answer.is_erased or (is_demonstration and content is None):
            gone.append(one.exchange_id)
        else:
            candidates[one.exchange_id] = Candidate(
                answer, one.event_ids, content, is_demonstration=is_demonstration
            )
    return candidates, gone


def _answers_of(connection: Connection, step: Step, frozen: Sequence[Frozen]) -> dict[UUID, Answer]:
    found = read_answers(connection, step.policy_id, (one.trajectory_id for one in frozen))
    return {answer.exchange_id: answer for of in found.values() for answer in of}


def _contents(connection: Connection, step: Step, frozen: Sequence[Frozen]) -> dict[UUID, Any] | None:
    """What was demonstrated, by event; None where nothing was: the source imitates the answers themselves."""
    if wish_of(step).source is not SftSource.DEMONSTRATIONS:
        return None
    ids = [one.event_ids[0] for one in frozen]
    rows = connection.execute(_DEMONSTRATED, {"ids": ids})
    return {row.id: from_storable(row.content) for row in rows}


def _same_turn(
    candidate: Candidate, one: Frozen, template: Template | None, step: Step, settings: TrainerSettings
) -> Turn:
    try:
        turn = imitated_turn(candidate, template, step.parent_version, settings.sample_max_tokens)
    except LeftOutError as error:
        raise BatchError(f"exchange {one.exchange_id} can be imitated no more: {error.reason}") from error
    if len(turn.completion_ids) != one.num_tokens:
        raise BatchError(
            f"the answer to exchange {one.exchange_id} has {len(turn.completion_ids)} tokens now and had "
            f"{one.num_tokens} when the step was built: is the tokenizer of SLIPSTREAM_BASE_MODEL another one?"
        )
    return turn


def _merged(turns: Sequence[tuple[Frozen, Turn]]) -> list[Sample]:
    """Turns of one trajectory that extend each other make one sample."""
    by_trajectory: dict[UUID, list[Turn]] = {}
    for one, turn in turns:
        by_trajectory.setdefault(one.trajectory_id, []).append(turn)
    return [sample for of in by_trajectory.values() for sample in merge_turns(of)]
