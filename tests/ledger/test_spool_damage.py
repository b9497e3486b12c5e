"""I4: what a full disk, a torn write and a flipped byte cost."""

import os
from pathlib import Path

import pytest

from ledger.codec import encode_call
from ledger.errors import SpoolError, SpoolFullError
from ledger.spool.frames import FINISHED, encode_frame, seed_of
from ledger.spool.spool import Spool, adopt_orphans
from tests.ledger.calls import a_call
from tests.ledger.spools import adopted, die_after, end_of_frames, limited_file_size, segments


def test_a_half_written_record_is_skipped_and_its_segment_kept(tmp_path: Path) -> None:
    """I10: counted, logged, set aside, never deleted."""
    calls = [a_call() for _ in range(3)]
    path = die_after(tmp_path, calls, [])
    (segment,) = segments(path)
    os.truncate(segment, end_of_frames(segment) - 10)
    for orphan in adopt_orphans(tmp_path):
        assert [r.call_id for r in orphan.records() if r.status == "completed"] == [
            c.call_id for c in calls[:2]
        ]
        assert orphan.directory.num_skipped == 1
        orphan.remove()
    assert [path.suffix for path in (tmp_path / "corrupt").iterdir()] == [".corrupt"]
    assert adopted(tmp_path) == []


def test_a_flipped_byte_costs_one_record(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, segment_bytes=1, memory_bytes=0)
    calls = [a_call() for _ in range(3)]
    spool.append(calls)
    (segment,) = segments(spool.path)
    held = bytearray(segment.read_bytes())
    held[end_of_frames(segment) // 2] ^= 0xFF
    segment.write_bytes(held)
    spool.append([calls[0]])
    batch = spool.read_batch(10)
    assert batch.records == [calls[0], calls[2], calls[0]]
    assert spool.num_skipped == 1
    spool.commit(batch)
    assert len(list((tmp_path / "corrupt").iterdir())) == 1


def test_a_full_disk_refuses_and_leaves_only_whole_records(tmp_path: Path, memory_bytes: int) -> None:
    spool = Spool.open(tmp_path, memory_bytes=memory_bytes)
    calls = [a_call() for _ in range(3)]
    spool.append(calls[:1])
    (segment,) = segments(spool.path)
    before = end_of_frames(segment)
    with limited_file_size(before + 100), pytest.raises(SpoolFullError, match="free disk space"):
        spool.append(calls[1:2])
    assert end_of_frames(segment) == before
    spool.append(calls[2:])
    assert spool.read_batch(10).records == [calls[0], calls[2]]


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="SLIPSTREAM_SPOOL"):
        Spool.open(tmp_path / "file" / "spool")


def test_a_frame_that_holds_no_record_is_skipped(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, memory_bytes=0)
    spool.append([a_call()])
    call = a_call()
    body = encode_call(call).replace(b"status", b"statue", 1)
    spool._writer.write([encode_frame(FINISHED, call.call_id, body, seed_of(1))])
    assert len(spool.read_batch(10).records) == 1
    assert spool.num_skipped == 1


def test_a_call_whose_end_could_not_be_written_is_written_as_interrupted_later_and_holds_no_segment(
    tmp_path: Path,
) -> None:
    """I4: the disk was full for a moment; afterwards nothing keeps the old segments."""
    spool = Spool.open(tmp_path, segment_bytes=1000)
    unlucky, others = a_call(), [a_call() for _ in range(3)]
    spool.accept(unlucky)
    with limited_file_size(100), pytest.raises(SpoolFullError):
        spool.append([unlucky])
    for call in others:
        spool.accept(call)
        spool.append([call])
    batch = spool.read_batch(10)
    spool.commit(batch)
    assert [record.status for record in batch.records if record.call_id == unlucky.call_id] == ["interrupted"]
    assert len(segments(spool.path)) == 1
    spool.close()
    assert list(tmp_path.iterdir()) == []
