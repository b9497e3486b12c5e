"""Recorded and rewarded traffic for the trainer's tests, written through the ledger's own functions."""

import random
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, text

from ledger.identifiers import choice_id, new_call_id, new_id
from ledger.policies import Policy, ensure_policy
from ledger.recording import record_calls
from ledger.records import Attribution, CallRecord, ChoiceRecord
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import ExchangeStatus, IdentifiedBy
from tests.trainer.tiny import VOCABULARY


def call(
    seed: int, num_choices: int, *, version: int = 0, logprob: float = -3.0, **changes: Any
) -> CallRecord:
    """A call with n choices: random ids, the same for the same seed."""
    rng = random.Random(seed)
    choices = []
    for index in range(num_choices):
        ids = [rng.randrange(VOCABULARY) for _ in range(rng.randint(2, 5))]
        choices.append(
            ChoiceRecord(
                index=index,
                response={"role": "assistant", "content": "x"},
                text="x",
                completion_ids=ids,
                sampling_logprobs=[logprob] * len(ids),
                finish_reason="stop",
            )
        )
    values: dict[str, Any] = {
        "call_id": new_call_id(),
        "project": "default",
        "policy": "default",
        "version": version,
        "attribution": Attribution(trajectory_id=new_call_id(), identified_by=IdentifiedBy.NEW),
        "request_id": "r",
        "endpoint": "/v1/chat/completions",
        "is_streamed": False,
        "requested_model": "default",
        "answered_model": "default",
        "messages": [{"role": "user", "content": f"task {seed} {new_id()}"}],
        "request": {},
        "started_at": datetime.now(UTC),
        "status": ExchangeStatus.COMPLETED,
        "num_choices": num_choices,
        "prompt_ids": [1, *(rng.randrange(VOCABULARY) for _ in range(6))],
        "temperature": 1.0,
        "choices": choices,
    }
    return CallRecord(**(values | changes))


def add_group(engine: Engine, seed: int, rewards: list[float | None], **changes: Any) -> list[UUID]:
    """One call whose choices get these rewards: a choices group. Returns the exchanges' ids."""
    record = call(seed, len(rewards), **changes)
    with engine.begin() as connection:
        ensure_policy(connection, name="default", base_model=base_model_of(connection))
        record_calls(connection, [record])
        for index, value in enumerate(rewards):
            if value is not None:
                post_reward(connection, "default", RewardPost(str(record.call_id), value=value, choice=index))
    return [choice_id(record.call_id, index) for index in range(len(rewards))]


def base_model_of(connection: Connection) -> str:
    return str(connection.execute(text("SELECT base_model FROM policies")).scalar_one())


def begin_policy(engine: Engine, base_model: str) -> Policy:
    with engine.begin() as connection:
        return ensure_policy(connection, name="default", base_model=base_model)


def rows(engine: Engine, query: str) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(text(query)))


def one(engine: Engine, query: str) -> Any:
    with engine.connect() as connection:
        return connection.execute(text(query)).scalar_one()
