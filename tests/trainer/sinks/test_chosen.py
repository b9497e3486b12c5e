"""Which sinks the worker starts with, and what it says where a library is missing."""

from pathlib import Path

import pytest

from trainer.errors import SinkMissingError
from trainer.sinks.chosen import chosen_sinks
from trainer.worker import run_worker


def test_without_settings_there_is_none(settings_of) -> None:
    assert chosen_sinks(settings_of(), lambda _: False) == []


def test_both_may_be_chosen(settings_of, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("WANDB_DIR", raising=False)
    settings = settings_of(tensorboard=tmp_path / "tb", wandb_project="p")
    found = chosen_sinks(settings, lambda _: True)
    assert [(sink.name, sink.folder) for sink in found] == [
        ("tensorboard", tmp_path / "tb"),
        ("wandb", tmp_path / "wandb"),
    ]
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "elsewhere"))
    assert chosen_sinks(settings, lambda _: True)[1].folder == tmp_path / "elsewhere"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tensorboard": Path("tb")}, "SLIPSTREAM_TENSORBOARD .* pip install 'slipstream\\[tensorboard\\]'"),
        ({"wandb_project": "p"}, "SLIPSTREAM_WANDB_PROJECT .* pip install 'slipstream\\[wandb\\]'"),
    ],
)
def test_a_missing_library_is_told_with_the_command_that_helps(settings_of, changes, said) -> None:
    with pytest.raises(SinkMissingError, match=said):
        chosen_sinks(settings_of(**changes), lambda _: False)


def test_the_worker_does_not_start_without_a_library_that_it_needs(settings_of, monkeypatch) -> None:
    """Before it asks Postgres for anything."""
    monkeypatch.setattr("trainer.sinks.chosen.find_spec", lambda _: None)
    with pytest.raises(SinkMissingError, match="is not installed"):
        run_worker(settings_of(wandb_project="p"))
