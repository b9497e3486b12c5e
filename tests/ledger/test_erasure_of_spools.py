"""A spool forgets, too: its frames become skeletons, and whoever reads them back records them as erased."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from ledger.codec import decode_held
from ledger.erasure import frames
from ledger.erasure.files import erase_files
from ledger.erasure.frames import Segment, frames_of
from ledger.recording import record_calls
from ledger.spool.frames import Gap
from ledger.spool.spool import Spool, adopt_orphans
from ledger.vocabulary import Reason
from tests.ledger.calls import a_call, a_choice, a_policy, rows
from tests.ledger.searching import places_of
from tests.ledger.test_erasure import ANNA, MARK, a_marked_call, erase


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


@pytest.mark.parametrize("odd", [{"seed": 1 << 70}, {"answered_model": "a\ud800"}])
def test_a_frame_that_holds_json_stays_whole(spool: Spool, tmp_path: Path, odd: dict[str, Any]) -> None:
    """What MessagePack cannot hold is in the skeleton, too. I4: it is a call, and no damage."""
    call = a_marked_call(**odd)
    spool.accept(call)
    spool.append([call])
    spool.erase({call.call_id})
    spool.close()
    [(orphan, found)] = [(orphan, list(orphan.records())) for orphan in adopt_orphans(tmp_path)]
    assert [(one.call_id, one.is_erased) for one in found] == [(call.call_id, True)]
    assert orphan.directory.num_skipped == 0


def test_an_end_that_says_next_to_nothing_is_emptied_like_any_other(spool: Spool) -> None:
    """Its request stands in another frame, so its skeleton must not hold one."""
    call = a_call(seed=1 << 70, choices=[])
    spool.accept(call)
    spool.append([call])
    assert spool.erase({call.call_id}) == 2


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


def test_what_a_process_died_over_while_it_set_a_record_aside_goes(tmp_path: Path) -> None:
    """Another one that is being written just now stays."""
    left, being_written = tmp_path / "rejected" / "left.new", tmp_path / "rejected" / "now.new"
    left.parent.mkdir()
    for path in (left, being_written):
        path.write_text(MARK)
    os.utime(left, (0, 0))
    erase_files(tmp_path, lambda _: False, [])
    assert files_with_mark(tmp_path) == ["now.new"]
