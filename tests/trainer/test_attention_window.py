"""Bases whose layers look back over a window: samples stay within it, where nothing differs."""

from pathlib import Path

import pytest
import torch
from transformers import Gemma3TextConfig, LlamaConfig, MistralConfig, MistralForCausalLM, Qwen2Config

from tests.trainer.tiny import turn
from trainer.attention_window import shortest_window
from trainer.grpo.packing import pack
from trainer.grpo.samples import merge_turns
from trainer.memory_plan import fitted
from trainer.stem_path import StemPath

WINDOW = 70
MISTRAL = MistralConfig(
    vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=2, sliding_window=WINDOW, initializer_range=0.5,
)  # fmt: skip


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (MISTRAL, WINDOW),
        (MistralConfig(sliding_window=None), None),
        (Qwen2Config(sliding_window=64, use_sliding_window=False), None),
        (Gemma3TextConfig(sliding_window=512), 512),
        (LlamaConfig(), None),
    ],
)
def test_the_window_is_what_the_configuration_says(config, expected) -> None:
    assert shortest_window(config) == expected


def test_samples_are_no_longer_than_the_window(settings_of, tmp_path: Path) -> None:
    MISTRAL.save_pretrained(tmp_path)
    settings = settings_of(base_model=str(tmp_path), memory_mib=8_000)
    assert settings.sample_max_tokens > WINDOW
    assert fitted(settings).sample_max_tokens == WINDOW


def test_within_the_window_a_row_is_what_the_model_computes_and_beyond_it_is_not() -> None:
    torch.manual_seed(0)
    model = MistralForCausalLM(MISTRAL).eval()
    for num_tokens, is_same in ((WINDOW, True), (2 * WINDOW, False)):
        prompt = [1 + i % 40 for i in range(num_tokens - 1)]
        [row] = pack(merge_turns([turn(1, prompt, [7])]), 1000)
        with torch.no_grad():
            ours = StemPath(model.model, torch.device("cpu")).hidden(row)
            plain = model.model(input_ids=row.token_ids_L[None]).last_hidden_state[0]
        assert torch.allclose(ours, plain, atol=1e-4) is is_same
