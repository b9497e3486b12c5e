"""An export is complete enough to train from again: the same samples, the same weights."""

import hashlib
from pathlib import Path

from sqlalchemy import text

from ledger.exports.export import export
from ledger.exports.filters import Filters
from ledger.imports.file import Importer
from ledger.imports.lines import parquet_lines
from ledger.vocabulary import StepState
from tests.trainer.traffic import add_group, rows
from trainer.step import tick

TRAFFIC = "exchanges, trajectories, trajectory_names, groups, reward_events"
SAMPLES = "SELECT exchange_id, reward, advantage, is_used FROM step_samples ORDER BY exchange_id"


def digest(trainer) -> str:
    path = trainer.settings.adapters / "default@1" / "adapter_model.safetensors"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_was_exported_teaches_the_same_when_it_comes_back(
    engine, make_trainer, replica, tmp_path: Path
) -> None:
    """The ledger forgets its traffic and what it learned; the file brings the traffic back."""
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0, 0.5])
    path = tmp_path / "a.parquet"
    export(engine, str(path), None, Filters(), requested_by="test", progress=lambda *_: None)
    assert tick(trainer).state is StepState.PUBLISHED
    first, learned = rows(engine, SAMPLES), digest(trainer)
    with engine.begin() as connection:
        connection.execute(text(f"TRUNCATE {TRAFFIC}, step_samples, training_steps CASCADE"))
        connection.execute(text("UPDATE policies SET live_version = 0"))
        connection.execute(text("DELETE FROM policy_versions WHERE version > 0"))
    for directory in (trainer.settings.adapters, trainer.settings.checkpoints_root):
        (directory / "default@1").rename(directory.parent / f"old-{directory.name}")
    assert Importer(engine).run(parquet_lines(path), lambda: None).num_new == 3
    assert tick(trainer).state is StepState.PUBLISHED
    assert rows(engine, SAMPLES) == first
    assert digest(trainer) == learned
