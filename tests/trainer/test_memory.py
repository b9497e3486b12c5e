"""Memory of a step: predicted before it begins, cut to fit, and never a crash loop."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig

from tests.trainer.test_frozen_layers import kept_bytes, make
from tests.trainer.tiny import random_samples, turn
from trainer.errors import BatchError, SurroundingsError
from trainer.fitting import fitting
from trainer.frozen_layers import lean
from trainer.grpo.packing import pack
from trainer.grpo.samples import Sample, merge_turns
from trainer.memory import available_mib
from trainer.memory_plan import Cut, ModelShape, choose_cuts, fitted, predicted_mib, shape_of
from trainer.policy_settings import trained_settings
from trainer.setting_types import Checkpointing
from trainer.update import accumulate, update

SMOLLM2 = ModelShape(30, 576, 1536, 576, 192, 49_152, is_tied=True, rank=8, number_bytes=4)
WIDE = """
import sys
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from tests.trainer.tiny import turn
from trainer.grpo.packing import pack
from trainer.grpo.samples import merge_turns
from trainer.memory import begin_peak, peak_memory_mib
from trainer.memory_plan import predicted_mib
from trainer.policy_model import LoraShape, PolicyModel
config = LlamaConfig(vocab_size=512, hidden_size=256, intermediate_size=768, num_hidden_layers=8,
    num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True)
model = PolicyModel(LlamaForCausalLM(config).eval(), LoraShape(), 1, torch.device("cpu"))
(row,) = pack(merge_turns([turn(1, [5] * 1000, [7] * 1000)]), 10_000)
model.checkpoints.is_on = sys.argv[1] == "on"
model.reset(None, None)
begin_peak()
model.logprobs(row)[0].sum().backward()
shape = model.memory_shape
print(predicted_mib(shape, 2000, 2000, 1000, is_checkpointing=model.checkpoints.is_on), peak_memory_mib())
"""


@pytest.mark.parametrize("checkpointing", ["off", "on"])
def test_the_prediction_is_near_what_a_process_comes_to_use(checkpointing) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WIDE, checkpointing], capture_output=True, text=True, check=True
    )
    predicted, measured = map(int, done.stdout.split())
    assert 0.7 * measured <= predicted <= 1.5 * measured


def test_what_a_token_leaves_in_a_layer_is_as_the_formula_says(tiny_path) -> None:
    """Bytes that autograd keeps, by difference: of 60 tokens and of 30."""
    peft = make(tiny_path)
    lean(peft)
    by_token = (kept_bytes(peft, 60) - kept_bytes(peft, 30)) / 30
    shape = shape_of(AutoConfig.from_pretrained(tiny_path), 8, 4)
    mask = (60**2 - 30**2) / 30 * (1 + 4)  # as it is given, and as numbers to add
    ends = 3 * shape.hidden * 4
    assert by_token == pytest.approx(shape.num_layers * shape.kept_by_layer * 4 + mask + ends, rel=0.15)


def test_the_shape_comes_from_the_configuration(tiny_path, model) -> None:
    shape = shape_of(AutoConfig.from_pretrained(tiny_path), 8, 4)
    assert shape == ModelShape(2, 32, 48, 32, 16, 64, is_tied=True, rank=8, number_bytes=4)
    assert shape.adapter_parameters == sum(parameter.numel() for parameter in model.lora.values())
    matrices = [p for p in model.peft.parameters() if p.dim() == 2 and not p.requires_grad]
    assert shape.base_parameters == sum(parameter.numel() for parameter in matrices)


def test_more_tokens_need_more_and_checkpointing_needs_less() -> None:
    small = predicted_mib(SMOLLM2, 512, 512, 170, is_checkpointing=False)
    large = predicted_mib(SMOLLM2, 8192, 512, 170, is_checkpointing=False)
    assert small < 2048 < large
    assert predicted_mib(SMOLLM2, 8192, 512, 170, is_checkpointing=True) < large / 2


def long_samples() -> list[Sample]:
    return merge_turns([turn(1, [5] * 1500, [7] * 500)]) + merge_turns([turn(2, [5] * 1500, [8] * 500)])


def cut_with(settings_of, memory_mib: int, **changes: Any) -> list[Cut]:
    settings = settings_of(memory_mib=memory_mib, **changes)
    return choose_cuts(SMOLLM2, long_samples(), settings, 170, 32)


def test_a_step_that_does_not_fit_gets_shorter_rows_and_then_checkpointing(settings_of) -> None:
    """Both samples in one row of 2,500 tokens; each on the stem of 1,500 with 500 of its own; then checkpointing."""
    whole, shorter, least = (cut_with(settings_of, mib, row_tokens=4096)[0] for mib in (9000, 4000, 1800))
    assert (whole.row_tokens, whole.is_checkpointing) == (4096, False)
    assert (shorter.row_tokens < 2500, shorter.is_checkpointing) == (True, False)
    assert least.is_checkpointing
    assert all(c.predicted_mib <= 0.9 * mib for c, mib in ((whole, 9000), (shorter, 4000), (least, 1800)))


def test_a_step_that_fits_in_no_way_says_what_would_help(settings_of) -> None:
    with pytest.raises(BatchError, match="SLIPSTREAM_TRAINER_MEMORY_MIB"):
        cut_with(settings_of, 1800, gradient_checkpointing="off")


def test_samples_that_cannot_fit_are_bounded_before_the_step_and_kept_with_it(settings_of) -> None:
    """I9: what is stored with a step decides which samples are too long, wherever it goes on."""
    settings = fitted(settings_of(memory_mib=700, sample_max_tokens=1_000_000))
    assert 1 < settings.sample_max_tokens < 1_000_000
    assert settings.learning()["sample_max_tokens"] == settings.sample_max_tokens
    assert fitted(settings_of(memory_mib=100_000)).sample_max_tokens == settings_of().sample_max_tokens
    elsewhere = settings_of(memory_mib=50_000).with_learning(settings.learning())
    assert elsewhere.sample_max_tokens == settings.sample_max_tokens


def test_where_nothing_fits_the_worker_does_not_start_instead_of_closing_every_group(settings_of) -> None:
    with pytest.raises(SurroundingsError, match="SLIPSTREAM_TRAINER_MEMORY_MIB"):
        fitted(settings_of(memory_mib=100))


def test_each_policy_is_bounded_by_its_own_table(settings_of, tiny_path: Path) -> None:
    """Else its long samples would fail their steps, and take the groups beside them along."""
    tables = {"long": {"sample_max_tokens": 1_000_000}, "short": {"sample_max_tokens": 100}}
    settings = fitted(settings_of(memory_mib=700, sample_max_tokens=200, policies=tables))
    found = {own.policy: own.sample_max_tokens for own in trained_settings(settings)}
    assert (found["default"], found["short"]) == (200, 100)
    assert 200 < found["long"] < 1_000_000


def test_what_this_worker_does_not_train_need_not_fit(settings_of, tiny_path: Path, tmp_path: Path) -> None:
    large = tmp_path / "large"
    config = AutoConfig.from_pretrained(tiny_path)
    config.hidden_size, config.num_hidden_layers = 8192, 80
    config.save_pretrained(large)
    tables = {"own": {"base_model": str(tiny_path)}}
    fitted(settings_of(memory_mib=700, base_model=str(large), policies=tables, trained_policies="own"))
    with pytest.raises(SurroundingsError, match="large"):
        fitted(settings_of(memory_mib=700, base_model=str(large), policies=tables))


def test_a_family_that_names_its_mlp_otherwise_has_a_shape() -> None:
    assert shape_of(AutoConfig.for_model("gpt2", n_embd=32, n_head=4), 8, 4).intermediate == 128


def test_without_a_setting_what_is_free_counts(settings_of) -> None:
    memory_mib = fitted(settings_of()).memory_mib
    assert memory_mib is not None
    assert 0 < memory_mib < 1 << 24


def test_a_containers_limit_bounds_what_is_available(tmp_path: Path) -> None:
    free = available_mib("cpu", tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text(f"{100 << 20}\n")
    assert available_mib("cpu", tmp_path) > free / 2
    (tmp_path / "memory.max").write_text(f"{300 << 20}\n")
    assert (
        200 <= available_mib("cpu", tmp_path) < 200 + 4096
    )  # what this process has already counts as its own


@pytest.mark.parametrize(
    ("limit", "usage", "details", "prefix"),
    [
        ("memory.max", "memory.current", "memory.stat", ""),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_"),
    ],
)
def test_files_that_were_read_take_no_memory_of_a_container(
    tmp_path: Path, limit: str, usage: str, details: str, prefix: str
) -> None:
    (tmp_path / limit).parent.mkdir(exist_ok=True)
    (tmp_path / limit).write_text(f"{300 << 20}\n")
    (tmp_path / usage).write_text(f"{290 << 20}\n")
    full = available_mib("cpu", tmp_path)
    (tmp_path / details).write_text(
        f"anon {90 << 20}\nactive_file 0\ninactive_file 0\n{prefix}active_file {50 << 20}\n"
        f"{prefix}inactive_file {150 << 20}\nworkingset_refault_file 7\n"
    )
    assert 190 <= available_mib("cpu", tmp_path) - full <= 210


@pytest.mark.parametrize("row_tokens", [20, 10_000])
def test_checkpointing_changes_no_gradient(model, settings_of, row_tokens) -> None:
    found = []
    for is_on in (False, True):
        model.reset(None, None)
        with torch.no_grad():
            for parameter in model.lora.values():
                parameter.fill_(0.05)
        model.checkpoints.is_on = is_on
        accumulate(model, pack(random_samples(3), row_tokens, 1), settings_of(kl=0.1))
        found.append({name: parameter.grad for name, parameter in model.lora.items()})
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_memory_that_runs_out_halves_the_rows_and_changes_nothing(model, settings_of) -> None:
    settings, samples = settings_of(row_tokens=512, learning_rate=1e-3), random_samples(3)
    model.reset(None, None)
    update(model, samples, settings, optimizer_step=1)
    expected = model.adapter_state()
    expected = {name: value.clone() for name, value in expected.items()}
    model.reset(None, None)
    failures = iter([torch.OutOfMemoryError("CUDA out of memory"), MemoryError()])

    def run_out() -> None:
        for failure in failures:
            raise failure

    metrics = update(model, samples, settings, optimizer_step=1, between_rows=run_out)
    assert (metrics["num_memory_retries"], metrics["row_tokens"]) == (2, 128)
    for name, value in model.adapter_state().items():
        torch.testing.assert_close(value, expected[name], rtol=1e-3, atol=1e-5)


def test_memory_that_always_runs_out_is_a_reason_and_leaves_the_weights(model, settings_of) -> None:
    model.reset(None, None)
    before = {name: value.clone() for name, value in model.adapter_state().items()}

    def run_out() -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    with pytest.raises(BatchError, match="rows of 64 tokens"):
        update(model, random_samples(3), settings_of(), optimizer_step=1, between_rows=run_out)
    assert all(torch.equal(value, before[name]) for name, value in model.adapter_state().items())


def test_any_other_error_is_not_taken_for_memory(model, settings_of) -> None:
    def fail(_rows) -> None:
        raise RuntimeError("shapes do not fit")

    with pytest.raises(RuntimeError, match="shapes"):
        fitting(model, random_samples(3), settings_of(), fail)


def test_a_step_tells_what_was_expected_and_how_it_was_cut(model, settings_of) -> None:
    model.reset(None, None)
    metrics = update(model, random_samples(3), settings_of(), optimizer_step=1)
    assert metrics["predicted_memory_mib"] > 0
    assert metrics["gradient_checkpointing"] is False
    model.reset(None, None)
    on = settings_of(gradient_checkpointing=Checkpointing.ON)
    assert update(model, random_samples(3), on, optimizer_step=1)["gradient_checkpointing"] is True


def test_the_rank_counts() -> None:
    assert replace(SMOLLM2, rank=64).adapter_parameters == 8 * SMOLLM2.adapter_parameters


def test_a_split_base_needs_its_share_and_two_layers_whole() -> None:
    """70 layers over 7 processes: 10 and 2 of them, and embedding and head."""
    layer = 8 * (2 * 8 + 2 * 4 + 3 * 16)
    shape = ModelShape(70, 8, 16, 8, 4, vocabulary=100, is_tied=False, rank=8, number_bytes=4)
    assert shape.base_parameters == 70 * layer + 2 * 100 * 8
    assert replace(shape, num_shards=7).base_parameters == 12 * layer + 2 * 100 * 8
