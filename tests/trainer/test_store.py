"""Adapters through object storage: whole or not there, never changed, and no replica refused for being slow."""

import json
from pathlib import Path

import fsspec
import pytest

from trainer.errors import AdapterRefusedError, StoreUnreachableError
from trainer.pull import pull, pull_for_ever
from trainer.pull_settings import PullSettings
from trainer.store import Store


@pytest.fixture(params=["memory", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/bucket/adapters"
    memory = fsspec.filesystem("memory")
    if memory.exists("/bucket"):
        memory.rm("/bucket", recursive=True)
    return "memory://bucket/adapters"


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    directory = tmp_path / "trainer" / "acme@default@3"
    directory.mkdir(parents=True)
    (directory / "adapter_config.json").write_bytes(b"{}")
    (directory / "adapter_model.safetensors").write_bytes(b"weights")
    return directory


def test_what_is_pushed_is_pulled_once_and_whole(url: str, adapter: Path, tmp_path: Path) -> None:
    there = tmp_path / "vllm"
    assert pull(Store(url), there) == []
    Store(url).push(adapter.name, adapter)
    Store(url).push(adapter.name, adapter)
    assert pull(Store(url), there) == [adapter.name]
    assert {path.name: path.read_bytes() for path in (there / adapter.name).iterdir()} == {
        "adapter_config.json": b"{}",
        "adapter_model.safetensors": b"weights",
    }
    assert pull(Store(url), there) == []


def test_a_push_that_died_half_way_is_not_seen_and_is_finished_by_the_next(
    url: str, adapter: Path, tmp_path: Path
) -> None:
    store = Store(url)
    store._write(f"{adapter.name}/adapter_config.json", b"ha")
    assert pull(store, tmp_path / "vllm") == []
    store.push(adapter.name, adapter)
    assert pull(store, tmp_path / "vllm") == [adapter.name]
    assert (tmp_path / "vllm" / adapter.name / "adapter_config.json").read_bytes() == b"{}"


def test_i7_a_name_is_never_given_to_another_adapter(url: str, adapter: Path) -> None:
    Store(url).push(adapter.name, adapter)
    (adapter / "adapter_model.safetensors").write_bytes(b"others")
    with pytest.raises(AdapterRefusedError, match="never used again"):
        Store(url).push(adapter.name, adapter)


def test_a_file_that_is_not_what_its_manifest_says_is_not_given_a_name(
    url: str, adapter: Path, tmp_path: Path
) -> None:
    store = Store(url)
    store.push(adapter.name, adapter)
    store._write(f"{adapter.name}/adapter_model.safetensors", b"garbage")
    with pytest.raises(AdapterRefusedError, match="manifest"):
        store.fetch(store.missing(tmp_path)[0], tmp_path / "vllm")
    assert not (tmp_path / "vllm" / adapter.name).exists()


@pytest.mark.parametrize("manifest", [None, b"{}", b"[]", b'{"adapter_config.json": "12'])
def test_without_a_whole_manifest_no_directory_gets_the_name(
    url: str, adapter: Path, tmp_path: Path, manifest: bytes | None
) -> None:
    """It may go, or be written, between the list and the fetch."""
    store = Store(url)
    if manifest is not None:
        store._write(f"{adapter.name}/manifest.json", manifest)
    with pytest.raises(AdapterRefusedError, match="manifest"):
        store.fetch(adapter.name, tmp_path / "vllm")
    assert not (tmp_path / "vllm").exists()


def test_a_manifest_that_was_written_by_half_is_written_again(
    url: str, adapter: Path, tmp_path: Path
) -> None:
    store = Store(url)
    store._write(f"{adapter.name}/manifest.json", b'{"adapter_config.json": "12')
    store.push(adapter.name, adapter)
    assert pull(store, tmp_path / "vllm") == [adapter.name]


class _EndpointError(Exception):
    """As botocore's: a network error that is no OSError."""


class _Away:
    def __getattr__(self, name: str) -> object:
        raise _EndpointError("could not connect to https://key:hunter2@host")


def test_a_library_whose_errors_are_no_os_errors_is_waited_for_too(
    url: str, adapter: Path, tmp_path: Path
) -> None:
    """Else publishing would count it as refused, and after a minute set the step aside."""
    store = Store(url)
    store._files = _Away()
    for ask in (
        lambda: store.push(adapter.name, adapter),
        lambda: store.missing(tmp_path),
        lambda: store.fetch(adapter.name, tmp_path),
    ):
        with pytest.raises(StoreUnreachableError, match="_EndpointError") as caught:
            ask()
        assert "hunter2" not in str(caught.value)
    assert pull(store, tmp_path) == []


@pytest.mark.parametrize("file", ["../../outside", ".hidden"])
def test_no_manifest_writes_outside_of_its_directory(url: str, file: str, tmp_path: Path) -> None:
    store = Store(url)
    store._write("default@1/manifest.json", json.dumps({file: "x"}).encode())
    store._write(f"default@1/{file}", b"evil")
    with pytest.raises(AdapterRefusedError):
        store.fetch(store.missing(tmp_path)[0], tmp_path / "vllm")
    assert not list(tmp_path.glob("**/outside*")) or url.startswith("file")


def test_a_kind_of_url_whose_library_is_missing_is_named_without_the_urls_password() -> None:
    with pytest.raises(StoreUnreachableError, match="SLIPSTREAM_ADAPTERS_URL") as caught:
        Store("nosuch://user:hunter2@host/adapters")
    assert "hunter2" not in str(caught.value)


def test_the_puller_goes_on_after_what_failed(url: str, adapter: Path, tmp_path: Path) -> None:
    """One that cannot be had comes first, each time, and keeps no other from coming."""
    store, looks = Store(url), []
    store._write("_broken@1/manifest.json", b"[not json")

    def wait(seconds: float) -> bool:
        looks.append(seconds)
        store.push(adapter.name, adapter)
        return len(looks) == 2

    pull_for_ever(store, PullSettings(adapters=tmp_path / "vllm", url=url, seconds=0.5), wait)
    assert looks == [0.5, 0.5]
    assert [path.name for path in (tmp_path / "vllm").iterdir()] == [adapter.name]
