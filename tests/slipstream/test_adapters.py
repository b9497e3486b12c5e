"""`slipstream adapters pull`: what is published comes to this disk, and its names are said."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from slipstream.cli import app
from slipstream.errors import SlipstreamError
from trainer.store import Store


def test_pull_once_brings_what_is_missing_and_says_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made" / "default@2"
    made.mkdir(parents=True)
    (made / "adapter_config.json").write_bytes(b"{}")
    url = f"file://{tmp_path}/bucket"
    Store(url).push("default@2", made)
    monkeypatch.setenv("SLIPSTREAM_ADAPTERS_URL", url)
    monkeypatch.setenv("SLIPSTREAM_ADAPTERS", str(tmp_path / "here"))
    first, second = (CliRunner().invoke(app, ["adapters", "pull", "--once"]) for _ in range(2))
    assert (first.exit_code, first.output.splitlines()[-1]) == (0, "default@2")
    assert (second.exit_code, second.output) == (0, "")
    assert (tmp_path / "here" / "default@2" / "adapter_config.json").is_file()


@pytest.mark.parametrize("url", ["", "nosuch://bucket"])
def test_an_url_that_is_missing_or_of_an_unknown_kind_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("SLIPSTREAM_ADAPTERS_URL", url)
    result = CliRunner().invoke(app, ["adapters", "pull", "--once"])
    assert isinstance(result.exception, SlipstreamError)
    assert "SLIPSTREAM_ADAPTERS_URL" in str(result.exception)
