from dataclasses import replace
from uuid import UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, select, text

from ledger.conversation import whole_exchanges, whole_messages
from ledger.identifiers import new_call_id
from ledger.recording import record_calls
from ledger.tables import exchanges
from tests.ledger.calls import a_call, a_choice, a_policy, conversation, rows

DELTAS = "SELECT num_shared_tokens, num_shared_messages, cardinality(prompt_ids) FROM exchanges ORDER BY id"
TOKENS = st.lists(st.integers(0, 3), max_size=4)


def test_a_conversation_grows_linearly(connection: Connection) -> None:
    """Fifty turns of 10 new tokens after an answer of 3: each later row stores its 10, not all that came before."""
    a_policy(connection)
    turns = conversation(50)
    record_calls(connection, turns[:20])
    for turn in turns[20:]:
        record_calls(connection, [turn])
    stored = rows(connection, DELTAS)
    assert stored[0] == (0, 0, 11)
    assert stored[1:] == [(11 + 3 + 13 * turn, 1 + 2 * turn, 10) for turn in range(49)]
    assert rows(connection, "SELECT sum(jsonb_array_length(messages)) FROM exchanges") == [(1 + 49 * 2,)]


def test_a_turn_that_does_not_continue_the_latest_one_is_stored_whole(connection: Connection) -> None:
    a_policy(connection)
    first, second = conversation(2)
    record_calls(connection, [first, replace(second, prompt_ids=[1, 2, 3])])
    assert rows(connection, DELTAS)[1] == (0, 0, 3)


def test_changed_messages_are_stored_whole_although_the_tokens_are_shared(connection: Connection) -> None:
    a_policy(connection)
    first, second = conversation(2)
    record_calls(connection, [first, replace(second, messages=[{"role": "user", "content": "other"}])])
    assert rows(connection, DELTAS)[1] == (14, 0, 10)


def test_a_turn_without_ids_is_skipped_over_when_looking_for_the_latest(connection: Connection) -> None:
    a_policy(connection)
    first, second, third = conversation(3)
    record_calls(connection, [first, replace(second, prompt_ids=None)])
    record_calls(connection, [replace(third, prompt_ids=[*(first.prompt_ids or []), 0, 8, 2, 5])])
    assert rows(connection, DELTAS)[2] == (14, 1, 1)


def test_a_delta_never_points_into_another_month(connection: Connection) -> None:
    """A dropped partition breaks no later row."""
    a_policy(connection)
    first, second = conversation(2)
    next_month = UUID(int=second.call_id.int + (40 * 86_400_000 << 80))
    record_calls(connection, [first, replace(second, call_id=next_month)])
    assert rows(connection, DELTAS)[1] == (0, 0, 24)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.booleans(), TOKENS, TOKENS, st.booleans()), min_size=1, max_size=6))
def test_whole_exchanges_are_what_was_recorded(
    connection: Connection, turns: list[tuple[bool, list[int], list[int], bool]]
) -> None:
    """I3: whatever continues or begins anew, in one batch or in several, every id comes back."""
    a_policy(connection)
    name, transcript, messages, calls, batch = new_call_id().hex + "-", [], [], [], []  # type: ignore[var-annotated]
    for continues, prompt, answer, ends_batch in turns:
        prompt = (transcript if continues else []) + prompt  # noqa: PLW2901
        messages = (messages if continues else []) + [{"role": "user", "content": str(prompt)}]
        calls.append(
            a_call(external_id=name, prompt_ids=prompt, messages=messages, choices=[a_choice(ids=answer)])
        )
        batch.append(calls[-1])
        transcript = prompt + answer
        if ends_batch:
            record_calls(connection, batch)
            batch = []
    record_calls(connection, batch)
    ((_, found),) = whole_exchanges(connection, [calls[0].attribution.trajectory_id]).items()
    assert [(x.exchange_id, x.prompt_ids, x.completion_ids) for x in found] == [
        (call.call_id, call.prompt_ids, call.choices[0].completion_ids) for call in calls
    ]
    stored = connection.execute(
        select(exchanges).where(exchanges.c.trajectory_id == found[0].trajectory_id).order_by(exchanges.c.id)
    ).all()
    assert whole_messages(stored) == [call.messages for call in calls]


def test_whole_exchanges_carry_what_a_sample_needs(connection: Connection) -> None:
    a_policy(connection)
    call = a_call(group="g", top_p=0.9, top_k=5)
    record_calls(connection, [call])
    group_id = connection.scalar(text("SELECT id FROM groups"))
    (found,) = whole_exchanges(connection, [call.attribution.trajectory_id])[call.attribution.trajectory_id]
    assert (found.group_id, found.version, found.temperature, found.top_p, found.top_k) == (
        group_id,
        3,
        1.0,
        0.9,
        5,
    )
    assert (found.sampling_logprobs, found.finish_reason, found.is_trainable) == ([-0.5] * 3, "stop", True)
    assert (found.untrainable_reason, found.num_completion_tokens, found.choice_index) == (None, 3, 0)
