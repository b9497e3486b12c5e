"""The contract with wandb, in its offline mode: what stands in the run's file. Skipped where it is not installed."""

import struct
from pathlib import Path
from typing import Any

import pytest

from ledger.figures import BY_NAME, FIGURES
from trainer.sinks.copying import Copying
from trainer.sinks.sink import run_name, tag
from trainer.sinks.weights_and_biases import WandbSink

pytest.importorskip("wandb")
BLOCK = 1 << 15


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # neither a login nor a cache of whoever runs this
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:hunter2@nowhere.invalid/ledger")
    monkeypatch.delenv("WANDB_DIR", raising=False)


def records(folder: Path) -> list[Any]:
    """Of all runs. The file is LevelDB's log: blocks of 32 KiB, a record in one piece (1) or in first, middle, last (2 3 4)."""
    from wandb.proto.wandb_internal_pb2 import Record

    found = []
    for path in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        raw, at, parts = path.read_bytes(), 7, b""
        while at + 7 <= len(raw):
            _, length, kind = struct.unpack_from("<IHB", raw, at)
            parts += raw[at + 7 : at + 7 + length]
            at += 7 + length
            if kind in {1, 4}:
                found.append(Record.FromString(parts))
                parts = b""
            if BLOCK - at % BLOCK < 7:
                at += BLOCK - at % BLOCK
    return found


def history(folder: Path) -> dict[int, dict[str, str]]:
    return {
        record.history.step.num: {
            item.key or "/".join(item.nested_key): item.value_json for item in record.history.item
        }
        for record in records(folder)
        if record.WhichOneof("record_type") == "history"
    }


def test_each_figure_is_logged_at_its_version_under_the_name_of_its_line(
    engine, policy, add_step, tmp_path: Path
) -> None:
    add_step(policy, 1)
    add_step(policy, 3, entropy=None)
    sink = WandbSink("p", tmp_path / "here")
    Copying(sink, engine, lambda: [policy]).copy()
    sink.close()
    found = history(tmp_path / "here")
    assert found.keys() == {1, 3}
    for version, items in found.items():
        for figure in FIGURES:
            if (version, figure.name) != (3, "entropy"):
                assert float(items[tag(figure)]) == version + (0 if figure.is_whole else 0.5)
    assert tag(BY_NAME["entropy"]) not in found[3]
    (run,) = [r.run for r in records(tmp_path / "here") if r.WhichOneof("record_type") == "run"]
    assert (run.display_name, run.run_id, run.project) == (run_name(policy), policy.id.hex, "p")


def test_nothing_but_figures_and_names_goes_out(engine, policy, add_step, tmp_path: Path) -> None:
    """No host, command line, code, package list, console or address of Postgres."""
    add_step(policy, 1)
    sink = WandbSink("p", tmp_path / "here")
    Copying(sink, engine, lambda: [policy]).copy()
    sink.close()
    kinds = {record.WhichOneof("record_type") for record in records(tmp_path / "here")}
    assert not kinds & {"files", "output", "output_raw", "stats", "environment"}
    written = b"".join(path.read_bytes() for path in (tmp_path / "here").rglob("*.wandb"))
    for word in (b"hunter2", b"nowhere.invalid", b"pytest"):
        assert word not in written
