"""Calls are numbered 1, 2, 3 … in their hour; a number outlives whatever happens to its frames (ADR 0010)."""

import os
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from ledger.audit.call_numbers import Spooled, hour_of, moment_of
from ledger.errors import SpoolError, SpoolFullError
from ledger.records import CallRecord
from ledger.spool.frames import FINISHED, scan, seed_of
from ledger.spool.spool import Spool, adopt_orphans
from tests.ledger.calls import a_call, a_choice, created_at, later
from tests.ledger.spools import limited_file_size, segments


def read(spool: Spool) -> list[Spooled]:
    return spool.read_batch(1000).spooled


def numbers(spooled: list[Spooled]) -> dict[object, int | None]:
    return {record.call_id: number for record, number in spooled}


def test_numbers_begin_with_1_in_each_hour_and_an_end_has_its_calls_number(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, memory_bytes=0)
    now = [a_call(call_id=later(k)) for k in range(3)]
    next_hour = [a_call(call_id=later(3600 + k)) for k in range(2)]
    for call in (*now, *next_hour):
        spool.accept(call)
    spool.append([now[2], next_hour[1]])
    spool.append([now[0]])
    assert [number for _, number in read(spool)] == [3, 2, 1]
    hour = hour_of(now[0].call_id)
    assert spool.accepted() == {hour: 3, hour + 1: 2}
    assert moment_of(hour) <= created_at(now[0]) < moment_of(hour + 1)


def test_what_could_not_be_accepted_gets_a_number_at_its_end_and_a_failure_takes_none(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    calls = [a_call(call_id=later(k)) for k in range(4)]
    with limited_file_size(50), pytest.raises(SpoolFullError):
        spool.accept(calls[0])
    with limited_file_size(50), pytest.raises(SpoolFullError):
        spool.append([calls[0]])
    spool.accept(calls[1])
    spool.append([calls[2], calls[1], calls[3]])
    assert [number for _, number in read(spool)] == [2, 1, 3]


def test_the_dead_processs_calls_keep_their_numbers(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    ended, running = a_call(), a_call(choices=[])
    spool.accept(ended)
    spool.accept(running)
    spool.append([ended])
    spool._directory.release()  # as the kernel does when a process dies
    (orphan,) = [list(orphan.spooled()) for orphan in adopt_orphans(tmp_path)]
    assert numbers(orphan) == {ended.call_id: 1, running.call_id: 2}


def flip_an_end(segment: Path, call: CallRecord) -> None:
    """One byte of the call's finished frame, in its middle."""
    held = bytearray(segment.read_bytes())
    frames = scan(bytes(held), 0, len(held), seed_of(int(segment.stem)))
    (end,) = [f for f in frames if getattr(f, "kind", b"") == FINISHED and f.call_id == call.call_id]  # type: ignore[union-attr]
    held[(end.start + end.end) // 2] ^= 0xFF
    segment.write_bytes(held)


@pytest.mark.parametrize("is_alone", [True, False])
def test_i4_a_damaged_end_in_a_living_process_becomes_interrupted(tmp_path: Path, is_alone: bool) -> None:
    """I4: no segment goes before; afterwards the damaged one is kept and the others go."""
    spool = Spool.open(tmp_path, segment_bytes=1, memory_bytes=0)
    calls = [a_call(choices=[]) for _ in range(1 if is_alone else 3)]
    for call in calls:
        spool.accept(call)
    for call in calls:
        spool.append([replace(call, choices=[a_choice()])])
    damaged = calls[len(calls) // 2]
    flip_an_end(segments(spool.path)[len(calls) + len(calls) // 2], damaged)
    seen: list[Spooled] = []
    while spool.num_waiting:
        batch = spool.read_batch(1)
        seen += batch.spooled
        spool.commit(batch)
    assert numbers(seen) == {call.call_id: k + 1 for k, call in enumerate(calls)}
    assert [r.call_id for r, _ in seen if r.status == "interrupted"] == [damaged.call_id]
    assert spool.num_lost == 0
    assert len(segments(spool.path)) == 1
    assert len(list((tmp_path / "corrupt").iterdir())) == 1
    spool.close()
    assert [path.name for path in tmp_path.iterdir()] == ["corrupt"]


def test_a_call_of_which_no_frame_is_whole_is_counted_as_lost(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, memory_bytes=0)
    call = a_call()
    spool.append([call])
    flip_an_end(segments(spool.path)[0], call)
    spool.commit(spool.read_batch(10))
    assert (spool.num_lost, spool.num_waiting) == (1, 0)


def test_an_end_that_cannot_be_encoded_becomes_interrupted_with_the_next(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    odd, other = a_call(choices=[]), a_call(choices=[])
    for call in (odd, other):
        spool.accept(call)
    with pytest.raises(TypeError):
        spool.append([replace(odd, error={"x": object()})])
    assert spool.num_unwritten == 1
    spool.append([other])
    assert [(number, record.status) for record, number in read(spool)] == [
        (1, "interrupted"),
        (2, "completed"),
    ]
    assert spool.num_running == 0


def test_a_failed_fsync_takes_no_number_from_the_calls_that_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool.open(tmp_path)
    calls = [a_call(call_id=later(k), choices=[]) for k in range(2)]
    spool.accept(calls[0])

    def broken(_: int) -> None:
        raise OSError(5, "I/O error")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fdatasync", broken)
        with pytest.raises(SpoolError):
            spool.append([calls[0]])
    spool.accept(calls[1])
    spool.append([calls[1]])
    assert numbers(read(spool)) == {calls[0].call_id: 1, calls[1].call_id: 2}


def test_what_waits_for_postgres_takes_disk_and_no_memory(tmp_path: Path) -> None:
    """Postgres is away: twice the calls, the same memory. 2,500 more records would be megabytes."""
    spool = Spool.open(tmp_path, memory_bytes=100_000)
    raw = b'{"messages": [], "x": "%b"}' % (b"x" * 2000)

    def some() -> None:
        for _ in range(50):
            calls = [
                a_call(raw_request=raw + b" ", prompt_key="messages", messages=None, choices=[])
                for _ in range(50)
            ]
            for call in calls:
                spool.accept(call)
            spool.append(calls)

    some()
    tracemalloc.start()
    some()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert spool.num_waiting == 5000
    assert held < 200_000, held
