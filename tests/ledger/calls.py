"""Calls for tests: complete and trainable unless told otherwise."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.identifiers import new_call_id, new_id, time_of
from ledger.policies import Policy, ensure_policy
from ledger.records import Attribution, CallRecord, ChoiceRecord
from ledger.vocabulary import ExchangeStatus, IdentifiedBy

NOW = datetime(2026, 11, 30, 12, 10, tzinfo=UTC)


def a_policy(connection: Connection, project: str = "default") -> Policy:
    return ensure_policy(connection, name="default", base_model="base", project=project)


def a_choice(index: int = 0, ids: list[int] | None = None, **changes: Any) -> ChoiceRecord:
    ids = [7, 8, 2] if ids is None else ids
    choice = ChoiceRecord(
        index=index,
        response={"message": {"role": "assistant", "content": "hi"}},
        text="hi",
        completion_ids=ids,
        sampling_logprobs=[-0.5] * len(ids),
        finish_reason="stop",
    )
    return replace(choice, **changes)


def an_attribution(**changes: Any) -> Attribution:
    return replace(Attribution(trajectory_id=new_id(), identified_by=IdentifiedBy.NEW), **changes)


def a_call(*, external_id: str | None = None, group: str | None = None, **changes: Any) -> CallRecord:
    call_id: UUID = changes.pop("call_id", None) or new_call_id()
    call = CallRecord(
        call_id=call_id,
        project="default",
        policy="default",
        version=3,
        attribution=an_attribution(external_id=external_id, group_key=group),
        request_id=call_id.hex,
        endpoint="/v1/chat/completions",
        is_streamed=False,
        requested_model="gpt-4o",
        answered_model="default@3",
        expected_model="default@3",
        messages=[{"role": "user", "content": "q"}],
        request={"temperature": 1.0},
        started_at=NOW,
        status=ExchangeStatus.COMPLETED,
        is_delivered=True,
        prompt_ids=[1, 5, 9],
        num_prompt_tokens=3,
        temperature=1.0,
        choices=[a_choice()],
    )
    return replace(call, **changes)


def n_call(n: int, **changes: Any) -> CallRecord:
    return a_call(num_choices=n, choices=[a_choice(k) for k in range(n)], **changes)


def conversation(num_turns: int, external_id: str = "talk") -> list[CallRecord]:
    """Each turn's prompt is everything before it and 10 new tokens; each answer has 3 tokens."""
    calls, prompt, messages = [], [1], []
    for turn in range(num_turns):
        prompt = [*prompt, *range(100, 110)]
        messages = [*messages, {"role": "user", "content": f"question {turn}"}]
        calls.append(
            a_call(
                external_id=external_id,
                prompt_ids=prompt,
                messages=messages,
                choices=[a_choice(ids=[turn, 8, 2])],
            )
        )
        prompt = [*prompt, turn, 8, 2]
        messages = [*messages, {"role": "assistant", "content": "hi"}]
    return calls


def rows(connection: Connection, query: str, **values: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(text(query), values)]


def everything(connection: Connection) -> list[list[tuple[Any, ...]]]:
    """All that recording writes, in a comparable form."""
    tables = ("exchanges", "trajectories", "trajectory_names", "groups", "reward_events")
    return [rows(connection, f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables]


_BEGIN = new_call_id()


def later(seconds: float) -> UUID:
    """A call id so much later than the first one of this run."""
    return UUID(int=_BEGIN.int + (int(seconds * 1000) << 80))


SENT = {"key_id": UUID(int=7), "request_sha256": "ab" * 32, "is_delivered": False}


def sent(seconds: float = 0, num_retries: int = 0, **changes: Any) -> CallRecord:
    """The same body with the same key, sent so many seconds after the first."""
    return a_call(call_id=later(seconds), num_retries=num_retries, **(SENT | changes))


def created_at(call: CallRecord) -> datetime:
    return time_of(call.call_id)
