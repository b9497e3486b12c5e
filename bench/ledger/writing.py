"""How many rows a second one writer puts into Postgres, beside one insert a row, and what a row takes there."""

import time
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Engine, insert, text

from bench.ledger.calls import POLICY, calls, raw_json
from ledger.database import sync_engine
from ledger.policies import ensure_policy
from ledger.recording_session import RecordingSession
from ledger.records import CallRecord
from ledger.request_body import derived
from ledger.tables import exchanges, trajectories
from ledger.token_ids import TokenIds

_BATCH = 200  # as proxy.writer takes at most
_SIZE = text(
    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
    " WHERE relkind = 'r' AND relname ~ '^(exchanges|trajectories|groups)(_|$)'"
)
_COUNT = text("SELECT count(*) FROM exchanges WHERE cardinality(completion_ids) = cardinality(logprobs)")


class LostRowsError(Exception):
    """Calls were recorded that are not in the ledger, or not whole."""


@dataclass(frozen=True)
class Writing:
    rows_per_second: float
    inserts_per_second: float
    bytes_json: float
    bytes_stored: float
    num_rows: int


def measure(url: str, seconds: float) -> Writing:
    """Rows through the writer's own path for so many seconds, then single inserts for a third of that."""
    engine = sync_engine(url)
    with engine.begin() as connection:
        ensure_policy(connection, name=POLICY, base_model="base")
        policy = connection.execute(text("SELECT id, project_id FROM policies LIMIT 1")).one()
        size_before = connection.scalar(_SIZE) or 0
    num, bytes_json, took = _record(engine, seconds)
    with engine.connect() as connection:
        if connection.scalar(_COUNT) != num:
            raise LostRowsError(
                f"{num} calls were recorded, and not as many rows have their ids and logprobs"
            )
        bytes_stored = float((connection.scalar(_SIZE) or 0) - size_before) / num
        inserted, inserting = _insert(connection, policy, seconds / 3)
    engine.dispose()
    return Writing(num / took, inserted / inserting, bytes_json / num, bytes_stored, num)


def _record(engine: Engine, seconds: float) -> tuple[int, float, float]:
    """Batch after batch, from the body as it came; the making of the calls is not counted."""
    session, source = RecordingSession(engine), calls(10**9)
    num, num_bytes, took = 0, 0.0, 0.0
    while took < seconds:
        batch = list(islice(source, _BATCH))
        num_bytes += len(raw_json(batch[0])) * len(batch)
        began = time.perf_counter()
        session.record([derived(call) for call in batch])
        took += time.perf_counter() - began
        num += len(batch)
    session.rest()
    return num, num_bytes, took


def _insert(connection: Connection, policy: Any, seconds: float) -> tuple[int, float]:
    """The same rows one by one, each committed: trajectory and exchange, nothing else is looked up."""
    took = 0.0
    for num, call in enumerate(calls(10**9), 1):
        whole = derived(call)
        began = time.perf_counter()
        _insert_one(connection, policy, whole)
        took += time.perf_counter() - began
        if took > seconds:
            return num, took
    raise AssertionError


def _insert_one(connection: Connection, policy: Any, call: CallRecord) -> None:
    choice, ids = call.choices[0], call.prompt_ids
    own = {"project_id": policy.project_id, "policy_id": policy.id}
    trajectory_id = call.attribution.trajectory_id
    connection.execute(insert(trajectories).values(id=trajectory_id, identified_by="new", **own))
    connection.execute(
        insert(exchanges).values(
            id=call.call_id, trajectory_id=trajectory_id, version=0, request_id=call.request_id, choice_index=0,
            endpoint=call.endpoint, is_streamed=False, requested_model=call.requested_model, status="completed",
            is_delivered=True, messages=call.messages, request=call.request, response=choice.response,
            completion_text=choice.text, prompt_ids=ids.to_list() if isinstance(ids, TokenIds) else ids,
            completion_ids=choice.completion_ids, sampling_logprobs=choice.sampling_logprobs, started_at=call.started_at,
            num_prompt_tokens=call.num_prompt_tokens, is_trainable=True, **own,
        )
    )  # fmt: skip
    connection.commit()
