"""The contract with tensorboardX: what stands in the event files. Skipped where it is not installed."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.figures import BY_NAME, FIGURES
from trainer.sinks.copying import Copying
from trainer.sinks.sink import run_name, tag
from trainer.sinks.tensorboard import TensorBoardSink

pytest.importorskip("tensorboardX")


def events(folder: Path) -> Iterator[Any]:
    """Of all files, in their order: each record is its length, a checksum, the event and another checksum."""
    from tensorboardX.proto.event_pb2 import Event

    for path in sorted(folder.glob("events.*"), key=lambda path: path.stat().st_mtime_ns):
        raw = path.read_bytes()
        while raw:
            (length,) = struct.unpack_from("<Q", raw)
            yield Event.FromString(raw[12 : 12 + length])
            raw = raw[16 + length :]


def scalars(folder: Path) -> dict[tuple[str, int], float]:
    return {
        (value.tag, event.step): value.simple_value
        for event in events(folder)
        for value in event.summary.value
    }


def test_each_figure_is_a_scalar_at_its_version_and_time(engine, policy, add_step, tmp_path: Path) -> None:
    add_step(policy, 1)
    add_step(policy, 2, entropy=None)
    sink = TensorBoardSink(tmp_path)
    Copying(sink, engine, lambda: [policy]).copy()
    folder = tmp_path / run_name(policy)
    found = scalars(folder)  # before it is closed: flushed
    sink.close()
    expected = {
        (tag(figure), version): version + (0 if figure.is_whole else 0.5)
        for figure in FIGURES
        for version in (1, 2)
    }
    del expected[tag(BY_NAME["entropy"]), 2]
    assert found == expected
    times = {event.step: event.wall_time for event in events(folder) if event.summary.value}
    assert times[2] - times[1] == 3600


def test_a_run_that_is_gone_on_with_forgets_what_comes_again(
    engine, policy, add_step, tmp_path: Path
) -> None:
    """As after a worker that died between writing and moving the position."""
    from tensorboardX.proto.event_pb2 import SessionLog

    add_step(policy, 1)
    for _ in range(2):
        sink = TensorBoardSink(tmp_path)
        Copying(sink, engine, lambda: [policy]).copy()
        sink.close()
        (tmp_path / ".slipstream" / f"{run_name(policy)}.version").unlink()
    starts = [
        event.step
        for event in events(tmp_path / run_name(policy))
        if event.session_log.status == SessionLog.START
    ]
    assert starts == [1, 1]
