"""How the embedded vLLM is started."""

from pathlib import Path
from typing import Any

import pytest

from slipstream.errors import UsageError
from slipstream.local import vllm
from slipstream.local.model import Model
from slipstream.settings import StackSettings

MODEL = Model("owner/name", is_directory=False)
NO_ADAPTERS = Path("nowhere")


@pytest.fixture(params=[False, True], ids=["cpu", "gpu"])
def is_gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(vllm, "has_gpu_build", lambda: request.param)
    return bool(request.param)


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


@pytest.mark.parametrize(("rank", "allowed"), [(1, 1), (4, 8), (8, 8), (9, 16), (300, 320)])
def test_the_server_allows_the_rank_of_the_adapters(rank: int, allowed: int) -> None:
    assert vllm.allowed_rank(rank) == allowed


def test_a_rank_that_vllm_cannot_serve_is_refused() -> None:
    with pytest.raises(UsageError, match="up to rank 512"):
        vllm.allowed_rank(513)


def test_there_is_room_for_the_kept_versions_and_the_one_being_loaded(is_gpu: bool) -> None:
    command = vllm.command(StackSettings(keep_versions=4), MODEL, 8000, NO_ADAPTERS)
    assert option(command, "--max-loras") == "5"
    assert int(option(command, "--max-cpu-loras")) >= 5


def test_there_is_room_for_every_policy_on_the_base_and_for_old_lines(is_gpu: bool, tmp_path: Path) -> None:
    """The live version may be of a larger rank than the settings now say: it is served until a new line follows it."""
    tables: dict[str, dict[str, Any]] = {
        "support": {"lora_rank": 9},
        "sql": {"base_model": "other", "lora_rank": 512},
    }
    settings = StackSettings(keep_versions=4, lora_rank=8, policies=tables)
    command = vllm.command(settings, MODEL, 8000, tmp_path)
    assert (option(command, "--max-lora-rank"), option(command, "--max-loras")) == ("16", "6")
    (tmp_path / "acme@default@3").mkdir()
    (tmp_path / "acme@default@3" / "adapter_config.json").write_text('{"r": 64}')
    (tmp_path / "default@1").mkdir()
    assert option(vllm.command(settings, MODEL, 8000, tmp_path), "--max-lora-rank") == "64"


def test_logprobs_follow_the_temperature_and_the_model_directory_changes_no_sampling(is_gpu: bool) -> None:
    command = vllm.command(StackSettings(), MODEL, 8000, NO_ADAPTERS)
    assert option(command, "--logprobs-mode") == "processed_logprobs"
    assert option(command, "--generation-config") == "vllm"


def test_only_a_cpu_gets_what_makes_a_cpu_fast(is_gpu: bool) -> None:
    command = vllm.command(StackSettings(), MODEL, 8000, NO_ADAPTERS)
    variables = vllm.variables(StackSettings(), MODEL)
    assert ("--block-size" in command, "VLLM_CPU_OMP_THREADS_BIND" in variables) == (not is_gpu, not is_gpu)


def test_the_operators_arguments_come_last_and_win(is_gpu: bool) -> None:
    settings = StackSettings(vllm_arguments="--max-num-seqs 7 --chat-template 'a b'")
    assert vllm.command(settings, MODEL, 8000, NO_ADAPTERS)[-4:] == [
        "--max-num-seqs",
        "7",
        "--chat-template",
        "a b",
    ]


def test_the_hub_is_switched_off_only_for_a_directory(is_gpu: bool, tmp_path: Path) -> None:
    assert "HF_HUB_OFFLINE" not in vllm.variables(StackSettings(), MODEL)
    assert vllm.variables(StackSettings(), Model(str(tmp_path), is_directory=True))["HF_HUB_OFFLINE"] == "1"
