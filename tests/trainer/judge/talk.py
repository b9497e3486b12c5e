"""Groups whose members said something, for a judge to read."""

from typing import Any
from uuid import UUID

from sqlalchemy import Engine

from ledger.identifiers import choice_id
from ledger.recording import record_calls
from ledger.records import ChoiceRecord
from tests.trainer.traffic import call, one

TASK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2 + 2?"}]


def add_answers(engine: Engine, answers: list[str], **changes: Any) -> tuple[UUID, list[UUID]]:
    """One call whose choices are these answers: the group, and the trajectories in the answers' order."""
    choices = [
        ChoiceRecord(
            index=index,
            response={"role": "assistant", "content": answer},
            text=answer,
            completion_ids=[1, 2, 3 + index],
            sampling_logprobs=[-1.0, -1.0, -1.0],
            finish_reason="stop",
        )
        for index, answer in enumerate(answers)
    ]
    record = call(len(answers), len(answers), **({"messages": TASK, "choices": choices} | changes))
    with engine.begin() as connection:
        record_calls(connection, [record])
    group_id = one(engine, "SELECT group_id FROM trajectories ORDER BY id DESC LIMIT 1")
    base = record.attribution.trajectory_id
    return group_id, [choice_id(base, index) for index in range(len(answers))]
