"""Whatever a client can say reaches its column and comes back: every one of them, through the spool's bytes and COPY."""

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, select

from ledger import bulk
from ledger.codec import decode_call, encode_call
from ledger.recording import record_calls
from ledger.records import CallRecord
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.sql_text import copied
from ledger.tables import exchanges, groups, reward_events, trajectories, trajectory_names
from ledger.text import from_storable, from_storable_text
from tests.ledger.calls import a_call, a_choice, a_policy, an_attribution
from tests.ledger.test_text import ANY_JSON, ANY_TEXT

ODD_NUMBER = st.sampled_from([math.nan, math.inf, -math.inf, 1e308, 5e-324, 0.5])
NAME = ANY_TEXT.filter(lambda text: 0 < len(text) < 60 and text == text.strip())
ANY_VALUE = ANY_JSON | ODD_NUMBER
ANY_OBJECT = st.dictionaries(ANY_TEXT, ANY_VALUE, max_size=4)
TEXTS = ("request_id", "endpoint", "requested_model", "answered_model", "client_name")
OBJECTS = ("error", "request")
NUMBERS = ("temperature", "top_p", "first_token_seconds", "total_seconds")
CHOICE_TEXTS = ("finish_reason", "stop_reason")


@st.composite
def odd_calls(draw: st.DrawFn) -> CallRecord:
    values: dict[str, Any] = {name: draw(ANY_TEXT) for name in TEXTS}
    values |= {name: draw(ANY_OBJECT) for name in OBJECTS} | {name: draw(ODD_NUMBER) for name in NUMBERS}
    choice = a_choice(
        text=draw(ANY_TEXT),
        response=draw(ANY_OBJECT),
        sampling_logprobs=[
            draw(ODD_NUMBER.filter(lambda x: not abs(x) > 1e38 or math.isinf(x))) for _ in range(3)
        ],
        **{name: draw(ANY_TEXT) for name in CHOICE_TEXTS},
    )
    attribution = an_attribution(
        external_id=draw(NAME), group_key=draw(NAME), metadata=draw(ANY_OBJECT), end_user=draw(ANY_TEXT)
    )
    return a_call(
        **values, messages=draw(st.lists(ANY_VALUE, max_size=3)), choices=[choice], attribution=attribution
    )


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: NaN is itself, and 1e308 may come back as 1 and 308 zeros."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return (
            type(one) in {int, float}
            and type(other) in {int, float}
            and repr(float(one)) == repr(float(other + 0.0))
        )
    return bool(one == other)


@pytest.mark.parametrize("is_new", [True, False], ids=["copied", "inserted"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(call=odd_calls())
def test_every_column_that_a_client_can_reach_holds_any_text(
    connection: Connection, call: CallRecord, is_new: bool
) -> None:
    """B081, B083, B084, B085. `inserted`: the way that a replay takes when COPY meets a row that exists."""
    a_policy(connection)
    call = decode_call(encode_call(call))
    with pytest.MonkeyPatch.context() as patch:
        if not is_new:
            patch.setattr(bulk, "copied", copied_twice)
        record_calls(connection, [call])
    row = connection.execute(select(exchanges).where(exchanges.c.id == call.call_id)).one()._mapping
    [choice] = call.choices
    for name in TEXTS:
        assert from_storable_text(row[name]) == getattr(call, name)
    for name in (*OBJECTS, "messages"):
        assert same(from_storable(row[name]), getattr(call, name))
    for name in NUMBERS:
        assert same(row[name], getattr(call, name))
    assert [from_storable_text(row[name]) for name in ("completion_text", *CHOICE_TEXTS)] == [
        choice.text, choice.finish_reason, choice.stop_reason,
    ]  # fmt: skip
    assert same(from_storable(row["response"]), choice.response)
    assert len(row["sampling_logprobs"]) == 3
    begun = select(trajectories).where(trajectories.c.id == row["trajectory_id"])
    trajectory = connection.execute(begun).one()
    assert same(from_storable(trajectory.metadata), call.attribution.metadata)
    assert from_storable_text(trajectory.end_user or "") == call.attribution.end_user
    name = connection.scalar(
        select(trajectory_names.c.name).where(trajectory_names.c.trajectory_id == trajectory.id)
    )
    assert from_storable_text(name or "") == call.attribution.external_id
    if trajectory.group_id is not None:
        key = connection.scalar(select(groups.c.key).where(groups.c.id == trajectory.group_id))
        assert from_storable_text(key or "") == call.attribution.group_key
    connection.rollback()


def copied_twice(rows: list[Any]) -> bytes:
    """COPY refuses a row that it is told twice; then it is inserted instead."""
    return copied([*rows, *rows])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAME, min_size=4, max_size=4), comment=ANY_TEXT, content=ANY_VALUE)
def test_every_column_of_a_reward_holds_any_text(
    connection: Connection, names: list[str], comment: str, content: Any
) -> None:
    """B081, B083, B084, B085: of an early one too, whose target is any text."""
    a_policy(connection)
    target, metric, source, id_ = names
    post = RewardPost(
        target, metric=metric, value=0.5, content=content, comment=comment, source=source, idempotency_id=id_
    )
    event_id = post_reward(connection, "default", post).event_id
    row = connection.execute(select(reward_events).where(reward_events.c.id == event_id)).one()
    assert same(from_storable(row.content), content)
    found = [row.comment, row.metric, row.source, row.idempotency_id]
    assert [from_storable_text(text) for text in found] == [comment, metric, source, id_]
    connection.rollback()
