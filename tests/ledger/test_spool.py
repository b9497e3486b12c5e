import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledger.codec import encode_call
from ledger.errors import SpoolError, SpoolFullError
from ledger.records import CallRecord
from ledger.spool.frames import END, FINISHED, encode_frame, scan, seed_of
from ledger.spool.spool import MEMORY_BYTES, Spool, adopt_orphans
from ledger.vocabulary import ExchangeStatus
from tests.ledger.calls import a_call


def segments(path: Path) -> list[Path]:
    return sorted(path.glob("*.segment"))


def end_of_frames(segment: Path) -> int:
    """Behind it stands END, and then what the file held before."""
    held = segment.read_bytes()
    end = max(found.end for found in scan(held, 0, len(held), seed_of(int(segment.stem))))
    assert held[end : end + len(END)] == END
    return end


@pytest.fixture(params=[0, MEMORY_BYTES], ids=["files", "memory"])
def memory_bytes(request: pytest.FixtureRequest) -> int:
    """Where finished calls are read from: the files, or memory while they are few."""
    value: int = request.param
    return value


def adopted(root: Path) -> list[CallRecord]:
    return [record for orphan in adopt_orphans(root) for record in orphan.records()]


def die_after(root: Path, finished: list[CallRecord], running: list[CallRecord]) -> Path:
    """Kill -9 of a process with these calls in its spool."""
    child = os.fork()
    if child == 0:
        spool = Spool.open(root)
        for record in finished + running:
            spool.accept(record)
        spool.append(finished)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    (path,) = [path for path in root.iterdir() if path.name != "corrupt"]
    return path


def test_what_is_appended_is_read_in_order_until_it_is_committed(tmp_path: Path, memory_bytes: int) -> None:
    spool = Spool.open(tmp_path, memory_bytes=memory_bytes)
    calls = [a_call() for _ in range(5)]
    spool.append(calls[:3])
    spool.append(calls[3:])
    batch = spool.read_batch(4)
    assert batch.records == calls[:4]
    assert spool.read_batch(4) == batch
    spool.commit(batch)
    assert spool.read_batch(10).records == calls[4:]
    spool.commit(spool.read_batch(10))
    assert spool.read_batch(10).records == []
    assert spool.num_waiting_bytes == 0


def test_committed_segments_are_removed_and_an_empty_spool_leaves_nothing(
    tmp_path: Path, memory_bytes: int
) -> None:
    spool = Spool.open(tmp_path, segment_bytes=1000, memory_bytes=memory_bytes)
    for _ in range(10):
        spool.append([a_call()])
    assert len(segments(spool.path)) == 10
    assert spool.num_waiting_bytes > 1000
    while (batch := spool.read_batch(3)).records:
        spool.commit(batch)
    assert len(segments(spool.path)) == 1
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_a_segment_stays_while_a_call_that_began_in_it_runs(tmp_path: Path, memory_bytes: int) -> None:
    spool = Spool.open(tmp_path, segment_bytes=1000, memory_bytes=memory_bytes)
    running = a_call()
    spool.accept(running)
    for _ in range(3):
        spool.append([a_call()])
    spool.commit(spool.read_batch(10))
    assert len(segments(spool.path)) == 4
    spool.close()
    assert [(r.call_id, r.status) for r in adopted(tmp_path)] == [
        (running.call_id, ExchangeStatus.INTERRUPTED)
    ]


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    """I4: finished calls as they were, running ones as interrupted, each once."""
    finished, running = [a_call() for _ in range(3)], [a_call(choices=[]) for _ in range(2)]
    path = die_after(tmp_path, finished, running)
    for orphan in adopt_orphans(tmp_path):
        records = list(orphan.records())
        assert records[:3] == finished
        assert [(r.call_id, r.status) for r in records[3:]] == [(r.call_id, "interrupted") for r in running]
        orphan.remove()
    assert not path.exists()
    assert adopted(tmp_path) == []


def test_an_orphan_that_was_not_removed_is_found_again(tmp_path: Path) -> None:
    """I4: the adopter may die, too."""
    calls = [a_call()]
    die_after(tmp_path, calls, [])
    assert adopted(tmp_path) == calls
    assert adopted(tmp_path) == calls


def test_a_living_process_is_never_adopted(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    spool.append([a_call()])
    assert adopted(tmp_path) == []


def test_two_adopters_never_hold_the_same_orphan(tmp_path: Path) -> None:
    die_after(tmp_path, [a_call()], [])
    for _ in adopt_orphans(tmp_path):
        assert list(adopt_orphans(tmp_path)) == []


def test_what_was_committed_is_not_replayed(tmp_path: Path, memory_bytes: int) -> None:
    spool = Spool.open(tmp_path, memory_bytes=memory_bytes)
    calls = [a_call() for _ in range(4)]
    spool.append(calls)
    spool.commit(spool.read_batch(3))
    spool.close()
    assert adopted(tmp_path) == calls[3:]


def test_an_emptied_cursor_replays_from_the_start(tmp_path: Path, memory_bytes: int) -> None:
    spool = Spool.open(tmp_path, memory_bytes=memory_bytes)
    calls = [a_call() for _ in range(3)]
    spool.append(calls)
    spool.commit(spool.read_batch(2))
    spool.close()
    (spool.path / "cursor").write_text("")
    assert adopted(tmp_path) == calls


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


@contextmanager
def limited_file_size(num_bytes: int) -> Iterator[None]:
    """The disk is full: no file of this process may grow beyond."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


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


def test_many_threads_append_while_one_reads(tmp_path: Path, memory_bytes: int) -> None:
    spool = Spool.open(tmp_path, segment_bytes=20_000, memory_bytes=memory_bytes)
    calls = [a_call() for _ in range(200)]

    def write(mine: list[CallRecord]) -> None:
        for call in mine:
            spool.accept(call)
            spool.append([call])

    threads = [threading.Thread(target=write, args=(calls[n::4],)) for n in range(4)]
    for thread in threads:
        thread.start()
    seen: list[CallRecord] = []
    while len(seen) < len(calls):
        batch = spool.read_batch(17)
        seen += batch.records
        spool.commit(batch)
    for thread in threads:
        thread.join()
    assert sorted(call.call_id for call in seen) == sorted(call.call_id for call in calls)
    spool.close()
    assert list(tmp_path.iterdir()) == []


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
