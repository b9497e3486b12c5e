"""The writer's own order of things: its calls first, whatever else it has to catch up."""

import time
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from ledger.spool.spool import Spool
from proxy.metrics import Metrics
from proxy.writer import Writer
from tests.ledger.calls import a_call, a_policy
from tests.ledger.spools import die_after, segments
from tests.ledger.test_call_numbers import flip_an_end
from tests.proxy.running import eventually


def a_writer(engine: Engine, root: Path, *, memory_bytes: int = 1 << 20) -> tuple[Writer, Spool]:
    with engine.begin() as connection:
        a_policy(connection)
    spool = Spool.open(root, memory_bytes=memory_bytes)
    return Writer(spool, root, engine, Metrics(), adopt_seconds=60), spool


def test_own_calls_are_written_between_those_of_a_dead_process(engine: Engine, tmp_path: Path) -> None:
    """After an outage its spool may hold hours."""
    die_after(tmp_path, [a_call() for _ in range(3)], [])
    writer, spool = a_writer(engine, tmp_path)
    spool.append([a_call()])
    writer._adopt()
    assert spool.num_waiting == 0
    writer._session.rest()
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_where_all_that_waits_is_damaged_the_cursor_moves_on(engine: Engine, tmp_path: Path) -> None:
    """I10: counted as lost, since its acceptance is not there either; the next call is written."""
    writer, spool = a_writer(engine, tmp_path, memory_bytes=0)
    damaged = a_call()
    spool.append([damaged])
    flip_an_end(segments(spool.path)[0], damaged)
    assert writer._write_batch()
    assert (spool.num_lost, spool.num_waiting) == (1, 0)
    assert not writer._write_batch()
    spool.append([a_call()])
    assert writer._write_batch()
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT num_damaged FROM capture_processes")) == 1
    writer._session.rest()
    spool.close()


def test_a_writer_that_is_to_stop_leaves_what_it_adopts_to_the_next(engine: Engine, tmp_path: Path) -> None:
    """Hours of calls would outlast the time that a stop may take, and its own last ones and its report come after."""
    die_after(tmp_path, [a_call() for _ in range(3)], [])
    [orphan] = tmp_path.iterdir()
    writer, spool = a_writer(engine, tmp_path)
    spool.append([a_call()])
    writer._is_stopping.set()
    writer._adopt()
    assert orphan.exists()
    writer._run_to_the_end()
    spool.close()
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM exchanges")).scalar_one() == 1
    again, spool = a_writer(engine, tmp_path)
    again._adopt()
    again._session.rest()
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_traffic_that_never_pauses_puts_off_neither_a_dead_process_nor_an_erasure(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever a batch is written the next call waits already."""
    orphan = die_after(tmp_path, [a_call()], [])
    writer, spool = a_writer(engine, tmp_path)
    looks: list[float] = []
    monkeypatch.setattr(writer._sweeper, "look", lambda: looks.append(time.monotonic()))
    monkeypatch.setattr(writer, "_linger", lambda: writer._is_stopping.is_set() or spool.append([a_call()]))
    spool.append([a_call()])
    writer.start()
    try:
        eventually(lambda: not orphan.exists() and looks, seconds=5)
    finally:
        writer.stop(10)
        spool.close()
