"""An erasure beside recorders, rewards and a spool's own process: whoever is first, no word is left, and no call is lost."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, text

from ledger.erasure.erase import begin, erase_some, finish
from ledger.erasure.search import _OF_USER
from ledger.erasure.sweeper import _NEW
from ledger.erasure.tombstones import write_tombstones
from ledger.recording import record_calls
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from tests.ledger.calls import a_call, a_policy, rows
from tests.ledger.searching import places_of
from tests.ledger.test_erasure import ANNA, MARK, a_marked_call


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def erase_in_steps(engine: Engine) -> None:
    with engine.begin() as connection:
        erasure = begin(connection, "default", ANNA, "test")
    while True:
        with engine.begin() as connection:
            if not erase_some(connection, erasure):
                break
    with engine.begin() as connection:
        finish(connection, erasure)


def test_an_erasure_waits_for_a_recorder_and_finds_what_it_wrote(engine: Engine) -> None:
    with engine.begin() as connection:
        a_policy(connection)
    with engine.connect() as recorder, recorder.begin():
        record_calls(recorder, [a_marked_call()])
        erasing = in_thread(lambda: erase_in_steps(engine))
        erasing.join(0.5)
        assert erasing.is_alive()  # it waits
    erasing.join(10)
    with engine.connect() as connection:
        assert places_of(connection, MARK) == []
        assert rows(connection, "SELECT count(*) FROM exchanges WHERE erased_at IS NOT NULL") == [(1,)]


def test_a_recorder_waits_for_a_tombstone_and_heeds_it(engine: Engine) -> None:
    with engine.begin() as connection:
        a_policy(connection)
    call = a_marked_call()

    def record() -> None:
        with engine.begin() as connection:
            record_calls(connection, [call])

    with engine.connect() as eraser, eraser.begin():
        erasure = begin(eraser, "default", ANNA, "test")
        recording = in_thread(record)
        recording.join(0.5)
        assert recording.is_alive()
    recording.join(10)
    with engine.begin() as connection:
        finish(connection, erasure)
        assert places_of(connection, MARK) == []
        assert rows(connection, "SELECT untrainable_reason FROM exchanges") == [("erased",)]


def test_an_erasure_waits_for_a_reward_on_its_way_and_takes_its_words(engine: Engine) -> None:
    call = a_marked_call()
    with engine.begin() as connection:
        a_policy(connection)
        record_calls(connection, [call])
    with engine.connect() as judge, judge.begin():
        post_reward(judge, "default", RewardPost(str(call.call_id), value=1.0, comment=MARK))
        erasing = in_thread(lambda: erase_in_steps(engine))
        erasing.join(0.5)
        assert erasing.is_alive()
    erasing.join(10)
    with engine.connect() as connection:
        assert places_of(connection, MARK) == []
        assert rows(connection, "SELECT value, comment FROM reward_events") == [(1.0, None)]


def test_recorders_and_an_erasure_at_once_lose_nothing(engine: Engine) -> None:
    """I4: sixty calls by three recorders while the user is erased twice: sixty rows, and no word of them."""
    with engine.begin() as connection:
        a_policy(connection)
    calls = [a_marked_call() for _ in range(60)]

    def record(mine: list[object]) -> None:
        for call in mine:
            with engine.begin() as connection:
                record_calls(connection, [call])  # type: ignore[list-item]

    threads = [in_thread(lambda k=k: record(calls[k::3])) for k in range(3)]  # type: ignore[misc]
    erase_in_steps(engine)
    for thread in threads:
        thread.join(30)
    erase_in_steps(engine)
    with engine.connect() as connection:
        assert rows(connection, "SELECT count(*), count(erased_at) FROM exchanges") == [(60, 60)]
        assert places_of(connection, MARK) == []


def test_a_search_for_a_user_reads_indexes_alone(engine: Engine) -> None:
    with engine.begin() as connection:
        a_policy(connection)
        record_calls(connection, [a_call(request={"user": f"u{k}"}) for k in range(300)])
    with engine.begin() as connection:
        connection.execute(text("ANALYZE exchanges"))
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        [(project_id,)] = rows(connection, "SELECT id FROM projects")
        values = {"project_id": project_id, "name": "u7", "limit": 100}
        plan = "\n".join(connection.scalars(text(f"EXPLAIN {_OF_USER.text}"), values))
        assert "Seq Scan" not in plan
        assert "user_idx" in plan
        assert len(connection.execute(_OF_USER, values).all()) == 1


def test_a_look_for_new_tombstones_reads_no_old_ones(connection: Connection) -> None:
    a_policy(connection)
    erasure = begin(connection, "default", ANNA, "test")
    write_tombstones(
        connection, erasure.id, erasure.before_id, [bytes([k % 256, k // 256]) for k in range(3000)]
    )
    connection.execute(text("UPDATE tombstones SET created_at = now() - interval '1 day'"))
    connection.execute(text("ANALYZE tombstones"))
    plan = "\n".join(connection.scalars(text(f"EXPLAIN {_NEW.text}"), {"since": datetime.now(UTC)}))
    assert "ix_tombstones_created_at" in plan
