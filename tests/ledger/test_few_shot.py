"""Examples in a prompt look like answered turns, and are nobody's."""

from dataclasses import replace

from sqlalchemy import Connection, text

from ledger.drafts import drafts_of
from ledger.policies import read_policies
from ledger.recording import record_calls
from ledger.recording_lock import lock_recording
from ledger.records import CallRecord
from tests.ledger.calls import (
    a_call,
    a_policy,
    an_attribution,
    rows,
)
from tests.ledger.continued import talk, trajectories_of


def is_alone(connection: Connection, *calls: CallRecord) -> bool:
    with connection.begin_nested():
        return lock_recording(connection, drafts_of(calls, read_policies(connection)))[0]


def test_recorders_of_few_shot_prompts_share_the_lock(connection: Connection) -> None:
    """Once others waited for that answer in vain; whatever may be an answer of ours is still looked for alone."""
    a_policy(connection)
    first, second = talk(2)
    few_shot = [a_call(attribution=an_attribution(continues_sha256="ef" * 32)) for _ in range(2)]
    assert is_alone(connection, few_shot[0])
    record_calls(connection, few_shot[:1])
    assert is_alone(connection, few_shot[1])
    connection.execute(text("UPDATE exchanges SET created_at = now() - interval '2 minutes'"))
    assert not is_alone(connection, few_shot[1])
    assert not is_alone(connection, a_call())
    assert is_alone(connection, few_shot[1], second)
    assert is_alone(connection, first, second)
    answer = replace(first, choices=[replace(first.choices[0], conversation_sha256="ef" * 32)])
    assert is_alone(connection, answer), "somebody waits for it"
    record_calls(connection, [answer])
    assert is_alone(connection, few_shot[1]), "it was ours after all"


def test_few_shot_examples_are_nobodys_answer(connection: Connection) -> None:
    a_policy(connection)
    calls = [a_call(attribution=an_attribution(continues_sha256="ef" * 32)) for _ in range(3)]
    for call in calls:
        record_calls(connection, [call])
    assert len(set(trajectories_of(connection))) == 3
    assert rows(connection, "SELECT count(*) FROM trajectory_names") == [(0,)]
