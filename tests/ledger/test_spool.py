import threading
from pathlib import Path

from ledger.records import CallRecord
from ledger.spool.spool import Spool, adopt_orphans
from ledger.vocabulary import ExchangeStatus
from tests.ledger.calls import a_call
from tests.ledger.spools import adopted, die_after, segments


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
