"""Base models stay in memory within a bound, and what a policy gets does not depend on whose turn was before."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.tiny import save_tiny_model
from trainer.model_cache import ModelCache
from trainer.policy_model import PolicyModel


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which bases were read from disk."""
    seen: list[str] = []
    load = PolicyModel.load

    def counting(path: str, *rest: Any) -> PolicyModel:
        seen.append(Path(path).name)
        return load(path, *rest)

    monkeypatch.setattr(PolicyModel, "load", counting)
    return seen


def test_a_base_is_loaded_once_for_adapters_of_several_shapes(
    settings_of: Callable[..., Any], loads: list[str]
) -> None:
    cache = ModelCache()
    first = cache.get(settings_of())
    assert cache.get(settings_of()) is first
    other = cache.get(settings_of(lora_rank=16))
    again = cache.get(settings_of())
    assert (other.shape.rank, again.shape.rank, len(loads)) == (16, 8, 1)


def test_an_adapter_after_another_shape_is_as_one_in_a_fresh_process(
    settings_of: Callable[..., Any], tiny_path: Path
) -> None:
    """I9: initial weights, and what the base answers."""
    cache = ModelCache()
    cache.get(settings_of(lora_rank=16))
    reused, fresh = cache.get(settings_of()), ModelCache().get(settings_of())
    assert reused.lora.keys() == fresh.lora.keys()
    assert all(torch.equal(reused.lora[name], fresh.lora[name]) for name in fresh.lora)
    assert reused.target_modules == fresh.target_modules
    assert torch.equal(reused.next_token_logprobs([1, 2, 3]), fresh.next_token_logprobs([1, 2, 3]))


def test_the_longest_unused_base_makes_room(
    settings_of: Callable[..., Any], loads: list[str], tmp_path: Path
) -> None:
    a, b, c = (str(save_tiny_model(tmp_path / name)) for name in "abc")
    cache = ModelCache(2)
    for base_model in (a, b, a, c, a, b):
        cache.get(settings_of(base_model=base_model))
    assert loads == ["a", "b", "c", "b"]
