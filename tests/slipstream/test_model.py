"""Which model is served, and the sentence for what is none."""

from pathlib import Path

import pytest

from slipstream.errors import UsageError
from slipstream.local.home import Home
from slipstream.local.model import choose_model, model_spec


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "config.json").write_text('{"max_position_embeddings": 2048}')
    (directory / "model.safetensors").touch()
    (directory / "tokenizer.json").touch()
    return directory


def test_the_default_is_made_once_in_the_home(home: Home) -> None:
    model = choose_model(home, None)
    made = model_spec(model, {})
    assert model.name == str(home / "models" / "SmolLM2-135M-Instruct")
    assert made is not None
    Path(model.name).mkdir()
    (Path(model.name) / "config.json").touch()
    assert model_spec(model, {}) is None


def test_a_directory_is_named_by_its_absolute_path(
    home: Home, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory.parent)
    model = choose_model(home, "model")
    assert (model.name, model.length_up_to(4096)) == (str(directory), 2048)


def test_a_hub_name_is_passed_on(home: Home) -> None:
    model = choose_model(home, "Qwen/Qwen3-0.6B")
    assert (model.name, model.is_directory, model.length_up_to(4096)) == ("Qwen/Qwen3-0.6B", False, 4096)


def test_a_later_start_keeps_the_model_of_the_first(home: Home, directory: Path) -> None:
    home.remember(model=str(directory))
    assert choose_model(home, None).name == str(directory)


@pytest.mark.parametrize("wanted", ["/no/such/model", "./model", "models/a/b"])
def test_a_missing_directory_is_one_sentence(home: Home, wanted: str) -> None:
    with pytest.raises(UsageError, match=f"There is no model directory {wanted}"):
        choose_model(home, wanted)


@pytest.mark.parametrize(
    ("removed", "what"),
    [("config.json", "config.json"), ("model.safetensors", "weights"), ("tokenizer.json", "tokenizer")],
)
def test_a_directory_that_is_no_model_says_what_is_missing(
    home: Home, directory: Path, removed: str, what: str
) -> None:
    (directory / removed).unlink()
    with pytest.raises(UsageError, match=what):
        choose_model(home, str(directory))


def test_an_adapter_is_not_taken_for_a_model(home: Home, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(UsageError, match="is an adapter, not a model"):
        choose_model(home, str(tmp_path))


def test_a_home_belongs_to_one_model(home: Home, directory: Path) -> None:
    home.remember(model="Qwen/Qwen3-0.6B")
    with pytest.raises(UsageError, match=r"Qwen/Qwen3-0\.6B.*--home"):
        choose_model(home, str(directory))
    assert choose_model(home, "Qwen/Qwen3-0.6B").name == "Qwen/Qwen3-0.6B"
