"""Adapters and checkpoints on disk: written whole or not at all, and only what vLLM loads."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from trainer.adapter_files import CONFIG, WEIGHTS, check_adapter, write_directory
from trainer.adapter_names import highest_version_on_disk
from trainer.checkpoint import adapter_files
from trainer.errors import AdapterRefusedError
from trainer.learned import adapter_config
from trainer.policy_model import lora_config


@pytest.fixture
def adapter(model, tmp_path) -> Path:
    final = tmp_path / "adapters" / "default@1"
    write_directory(
        final, adapter_files(model.adapter_state(), adapter_config(model, "/models/base")), "mark"
    )
    return final


def test_an_adapter_holds_lora_weights_and_nothing_else(model, adapter) -> None:
    """B152: peft's own saving may add embeddings; ours cannot."""
    names = set(load_file(adapter / WEIGHTS))
    assert names == set(model.lora)
    assert all(name.endswith((".lora_A.weight", ".lora_B.weight")) for name in names)
    assert names == {
        f"base_model.model.model.layers.{layer}.{module}.lora_{half}.weight"
        for layer in range(2)
        for module in (
            *(f"self_attn.{m}_proj" for m in "qkvo"),
            *(f"mlp.{m}_proj" for m in ("gate", "up", "down")),
        )
        for half in "AB"
    }


def test_the_configuration_is_pefts_and_the_same_bytes_each_time(model, adapter) -> None:
    """B150, B151: no modules_to_save, no bias, no DoRA."""
    config = json.loads((adapter / CONFIG).read_text())
    assert config["peft_type"] == "LORA"
    assert config["base_model_name_or_path"] == "/models/base"
    assert (config["r"], config["lora_alpha"], config["modules_to_save"]) == (8, 16.0, None)
    assert config["target_modules"] == sorted(config["target_modules"])
    assert (
        adapter_files(model.adapter_state(), adapter_config(model, "/models/base"))[CONFIG]
        == (adapter / CONFIG).read_bytes()
    )
    assert lora_config(model.shape).modules_to_save is None


def test_what_was_saved_loads_back_through_peft_with_equal_logits(model, adapter, tiny_path) -> None:
    """B106, B108: save, load in a fresh model, compare."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    with torch.no_grad():
        for parameter in model.lora.values():
            parameter.normal_(0, 0.1)
    place = adapter.with_name("default@2")
    write_directory(
        place, adapter_files(model.adapter_state(), adapter_config(model, str(tiny_path))), "mark"
    )
    fresh = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny_path), place).eval()
    logits = fresh(torch.tensor([[5, 6, 7]]), use_cache=False).logits[0, -1]
    torch.testing.assert_close(logits.log_softmax(-1).detach(), model.next_token_logprobs([5, 6, 7]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"use_dora": True}, "use_dora"),
        ({"bias": "all"}, "bias"),
        ({"r": 12}, "rank 12"),
        ({"r": 16}, "not of rank 16"),
        ({"target_modules": ["q_proj"]}, "is not a LoRA weight of q_proj"),
    ],
)
def test_what_vllm_cannot_serve_is_refused_before_it_gets_there(adapter, change, message) -> None:
    """B150, B151, B153, B154, and B106: r must equal the tensors' rank."""
    config = json.loads((adapter / CONFIG).read_text())
    (adapter / CONFIG).write_text(json.dumps(config | change))
    with pytest.raises(AdapterRefusedError, match=message):
        check_adapter(adapter)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda t: t | {"base_model.model.model.embed_tokens.weight": torch.zeros(2, 2)},
            "not a LoRA weight",
        ),
        (lambda t: {k: v * float("nan") for k, v in t.items()}, "not finite"),
        (lambda t: {k: v.half() for k, v in t.items()}, "not float32"),
        (lambda t: {k: v for k, v in t.items() if "lora_A" in k}, "other half"),
        (lambda t: {}, "empty"),
    ],
)
def test_tensors_that_are_not_a_lora_adapter_are_refused(adapter, damage, message) -> None:
    """B152, B153."""
    save_file(damage(load_file(adapter / WEIGHTS)), adapter / WEIGHTS)
    with pytest.raises(AdapterRefusedError, match=message):
        check_adapter(adapter)


@pytest.mark.parametrize("length", [0, 4, 9, 100, 5000])
def test_a_file_cut_short_anywhere_is_refused(adapter, length) -> None:
    """B163."""
    os.truncate(adapter / WEIGHTS, length)
    with pytest.raises(AdapterRefusedError):
        check_adapter(adapter)


def test_pickles_are_never_read(adapter) -> None:
    torch.save({"x": torch.zeros(1)}, adapter / WEIGHTS)
    with pytest.raises(AdapterRefusedError):
        check_adapter(adapter)


def test_i7_a_directory_that_has_its_name_is_never_replaced(adapter) -> None:
    """I7: not even by the same step."""
    before = (adapter / WEIGHTS).read_bytes()
    with pytest.raises(FileExistsError):
        write_directory(adapter, {WEIGHTS: b"other"}, "late")
    assert (adapter / WEIGHTS).read_bytes() == before
    assert [path.name for path in adapter.parent.iterdir()] == ["default@1"]


def test_what_a_crash_left_aside_is_removed_by_the_next_attempt(tmp_path) -> None:
    half = tmp_path / ".default@3.dead.1"
    half.mkdir()
    (half / WEIGHTS).write_bytes(b"half")
    write_directory(tmp_path / "default@3", {WEIGHTS: b"whole"}, "next")
    assert [path.name for path in tmp_path.iterdir()] == ["default@3"]
    assert (tmp_path / "default@3").stat().st_mode & 0o777 == 0o755


def test_the_highest_version_on_disk_is_that_of_this_policy(tmp_path) -> None:
    for name in ("default@2", "default@11", "other@40", "default@x", ".default@50.a.1"):
        (tmp_path / name).mkdir()
    assert highest_version_on_disk(tmp_path, "default") == 11
    assert highest_version_on_disk(tmp_path / "nowhere", "default") == 0


def test_i7_a_name_with_a_patterns_letters_is_seen_on_disk(tmp_path) -> None:
    """I7: a policy may be called `a[1]`; its numbers are taken like any other's."""
    (tmp_path / "a[1]@7").mkdir()
    assert highest_version_on_disk(tmp_path, "a[1]") == 7
    stale = tmp_path / ".a[1]@8.old"
    stale.mkdir()
    write_directory(tmp_path / "a[1]@8", {"file": b""}, "mark")
    assert not stale.exists()
