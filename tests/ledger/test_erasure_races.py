"""An erasure beside recorders, rewards and a spool's own process: whoever is first, no word is left, and no call is lost."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, text

from ledger.codec import decode_held
from ledger.erasure import frames
from ledger.erasure.erase import begin, erase_some, finish
from ledger.erasure.frames import Segment, frames_of
from ledger.erasure.search import _OF_USER
from ledger.erasure.sweeper import _NEW
from ledger.erasure.tombstones import write_tombstones
from ledger.recording import record_calls
from ledger.rewards import RewardPost, post_reward
from ledger.spool.frames import Gap
from ledger.spool.spool import Spool, adopt_orphans
from ledger.vocabulary import Reason
from tests.ledger.calls import a_call, a_choice, a_policy, rows
from tests.ledger.searching import places_of
from tests.ledger.test_erasure import ANNA, MARK, a_marked_call, erase


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


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool.open(tmp_path, segment_bytes=6000)


def files_with_mark(root: Path) -> list[str]:
    return [path.name for path in root.rglob("*") if path.is_file() and MARK.encode() in path.read_bytes()]


def test_a_spool_forgets_what_is_committed_what_waits_what_runs_and_what_it_held_before(
    spool: Spool, tmp_path: Path
) -> None:
    """Segments of 6000 bytes are written again and again; then only frames of others hold words."""
    calls = [a_marked_call() for _ in range(20)]
    other = a_call(messages=[{"role": "user", "content": "other"}])
    for number, call in enumerate([*calls, other]):
        spool.accept(call)
        if number != 19:
            spool.append([call])
        if number == 12:
            spool.commit(spool.read_batch(100))
    assert files_with_mark(tmp_path)
    gone = {call.call_id for call in calls}
    spool.erase(lambda call: call.call_id in gone)
    assert files_with_mark(tmp_path) == []
    files = [Segment(path, int(path.stem)) for path in sorted(spool.path.glob("*.segment"))]
    assert not [found for _, found in frames_of(files) if isinstance(found, Gap)]
    spool.accept(late := a_call())
    spool.append([late])  # it goes on
    spool.close()
    [orphan] = [list(orphan.records()) for orphan in adopt_orphans(tmp_path)]
    assert {call.call_id for call in orphan} == {call.call_id for call in [*calls[13:], other, late]}
    assert {call.call_id for call in orphan if call.messages} == {other.call_id, late.call_id}


def test_late_calls_are_swept_without_a_look_into_others(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who goes on with an erased trajectory has a late call in each batch; the spool may hold an hour of others."""
    calls = [a_marked_call() for _ in range(20)]
    for call in calls:
        spool.append([call])
    decoded: list[bytes] = []
    monkeypatch.setattr(frames, "decode_held", lambda data: decoded.append(data) or decode_held(data))
    assert spool.erase({calls[3].call_id}) == 1
    assert len(decoded) == 1
    spool.close()
    [orphan] = [list(orphan.records()) for orphan in adopt_orphans(tmp_path)]
    assert [call.call_id for call in orphan if call.is_erased] == [calls[3].call_id]


def test_a_replayed_skeleton_is_recorded_as_erased(spool: Spool, tmp_path: Path, engine: Engine) -> None:
    """Its process died after the sweep: nothing but the frame says that it was erased."""
    call = a_marked_call()
    spool.accept(call)
    spool.append([call])
    spool.erase(lambda _: True)
    spool.close()
    with engine.begin() as connection:
        a_policy(connection)
        for orphan in adopt_orphans(tmp_path):
            record_calls(connection, list(orphan.records()))
        assert rows(connection, "SELECT id, untrainable_reason, num_completion_tokens, erased_at IS NULL FROM exchanges") == [
            (call.call_id, "erased", 3, False)
        ]  # fmt: skip
        assert erase(connection, ANNA)["num_exchanges"] == 0


def test_the_answer_to_a_request_that_was_swept_is_erased(
    spool: Spool, tmp_path: Path, engine: Engine
) -> None:
    """The sweep came while it ran, and its process died before it was recorded: only the request had said whose it is."""
    call = a_call(
        request={"metadata": {"user_id": ANNA.name}},
        choices=[a_choice(text=MARK, response={"message": {"role": "assistant", "content": MARK}})],
    )
    spool.accept(replace(call, choices=[]))
    with engine.begin() as connection:
        a_policy(connection)
        erase(connection, ANNA)
    spool.erase(lambda found: found.call_id == call.call_id)
    spool.append([call])
    spool.close()
    with engine.begin() as connection:
        for orphan in adopt_orphans(tmp_path):
            assert record_calls(connection, list(orphan.records())) == [call.call_id]
        assert places_of(connection, MARK) == []
        assert rows(connection, "SELECT num_completion_tokens, erased_at IS NULL FROM exchanges") == [
            (3, False)
        ]


def test_a_replayed_skeleton_of_teacher_data_is_recorded_as_erased(
    spool: Spool, tmp_path: Path, engine: Engine
) -> None:
    """It keeps the reason that it had: `external_model`."""
    call = a_marked_call(version=None, untrainable_reason=Reason.EXTERNAL_MODEL)
    spool.accept(call)
    spool.append([call])
    spool.erase(lambda _: True)
    spool.close()
    with engine.begin() as connection:
        a_policy(connection)
        for orphan in adopt_orphans(tmp_path):
            record_calls(connection, list(orphan.records()))
        assert rows(
            connection, "SELECT untrainable_reason, erased_at IS NULL, request_id FROM exchanges"
        ) == [("external_model", False, call.call_id.hex)]
