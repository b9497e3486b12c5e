"""The plugin against vLLM's own CPU kernels where those are right, and against plain arithmetic where they are not."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from vllm.lora.ops.torch_ops import lora_ops
from vllm.lora.request import LoRARequest

from slipstream.vllm_plugin import bgmv_expand, bgmv_expand_slice, bgmv_shrink, sparing, tell_adapters_apart

ROWS, RANK, WIDTH, SLOTS = 6, 8, 12, 3


def _tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(ROWS, WIDTH), torch.randn(SLOTS, 1, RANK, WIDTH), torch.randn(SLOTS, 1, WIDTH, RANK)


def test_rows_of_adapters_get_what_vllm_gives_them() -> None:
    inputs, down, up = _tensors()
    indices = torch.tensor([0, 2, 1, 1, 0, 2])
    ours, theirs = torch.zeros(ROWS, RANK), torch.zeros(ROWS, RANK)
    bgmv_shrink(inputs, down, ours, indices, 2.0)
    lora_ops.bgmv_shrink(inputs, down, theirs, indices, 2.0)
    torch.testing.assert_close(ours, theirs)
    our_output, their_output = torch.ones(ROWS, WIDTH), torch.ones(ROWS, WIDTH)
    bgmv_expand(ours, up, our_output, indices)
    lora_ops.bgmv_expand(theirs, up, their_output, indices)
    torch.testing.assert_close(our_output, their_output)


def test_rows_without_an_adapter_get_none() -> None:
    """I2: index -1 is the base model, whatever is batched beside it."""
    inputs, down, up = _tensors()
    indices = torch.tensor([-1, 2, -1, 0, 0, -1])
    is_base = indices == -1
    hidden = torch.full((ROWS, RANK), 7.0)
    bgmv_shrink(inputs, down, hidden, indices)
    assert torch.all(hidden[is_base] == 0)
    output = torch.ones(ROWS, 2 * WIDTH)
    bgmv_expand_slice(torch.randn(ROWS, RANK), up, output, indices, WIDTH, WIDTH)
    assert torch.all(output[is_base] == 1)
    assert torch.all(output[:, :WIDTH] == 1)
    assert not torch.any(output[~is_base, WIDTH:] == 1)


def test_a_name_loaded_again_is_another_adapter() -> None:
    """I8: vLLM 0.32 left one of the two out of the batch's adapters, and the engine died with all its calls."""
    tell_adapters_apart()
    old, new = LoRARequest("default@1", 5, "/a/default@1"), LoRARequest("default@1", 51, "/a/default@1")
    assert {request.lora_int_id for request in {old, new}} == {5, 51}
    assert old == LoRARequest("default@1", 5, "/a/default@1") != new
    assert len({old, LoRARequest("default@1", 5, "/a/default@1")}) == 1


def _sample_as_vllm_does(runner: Any) -> dict[int, float]:
    """A draw for each generator; those of half-computed prompts are wound back, which a CPU's cannot be."""
    drawn = {row: float(torch.rand(1, generator=g)) for row, g in runner.input_batch.generators.items()}
    for row in np.nonzero(runner.discard_request_mask.np[: runner.input_batch.num_reqs])[0]:
        generator = runner.input_batch.generators.get(int(row))
        if generator is not None:
            generator.set_offset(generator.get_offset() - 4)
    return drawn


def test_a_seed_survives_a_prompt_that_is_computed_in_parts() -> None:
    """I8: vLLM 0.32's engine died of it on a CPU. The seeded draw is the one of a prompt computed at once."""
    generators = {row: torch.Generator().manual_seed(7) for row in (0, 2)}
    runner = SimpleNamespace(
        input_batch=SimpleNamespace(generators=generators, num_reqs=3),
        discard_request_mask=SimpleNamespace(np=np.array([True, False, False, True])),
    )
    with pytest.raises(RuntimeError, match="offset"):
        _sample_as_vllm_does(runner)
    generators[0].manual_seed(7)
    generators[2].manual_seed(7)
    whole = float(torch.rand(1, generator=torch.Generator().manual_seed(7)))
    assert sparing(_sample_as_vllm_does)(runner) == {2: whole}
    runner.discard_request_mask.np[0] = False
    assert sparing(_sample_as_vllm_does)(runner)[0] == whole
