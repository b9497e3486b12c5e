"""A vLLM plugin (entry point `vllm.general_plugins`) that mends LoRA (a crash everywhere, wrong weights on a CPU), and seeds on a CPU.

vLLM 0.32 tells adapters apart by name where it gathers those of a batch, but by id where it looks them up. A name that
was unloaded and loaded again has another id; if a call of the old one still runs, both are in one batch, one of them is
left out, and the engine dies of a KeyError with every call in it. So requests are equal only if their ids are, too.

vLLM 0.32's CPU kernels pick a row's adapter by `weights[indices]`. A row without an adapter has index -1, which picks
the *last* slot: a request to the base model that is batched beside a request to an adapter is answered with some
adapter's weights. That breaks I2 and I8, so rows without an adapter get nothing added here. Rows of one adapter are
multiplied at once instead of copying the adapter for each row.

vLLM 0.32 draws a token also for a prompt of which only a part was computed, drops it, and winds the request's generator
back. A CPU's generator cannot be wound back: the engine dies with every call in it, of one `seed` and a prompt that did
not fit into the batch. So here such a request's generator is kept out of the draw.

Legend: N = rows (tokens of the batch), R = rank, I = input width, O = output width, S = adapter slots.
"""

import logging
from collections.abc import Callable, Iterator
from functools import wraps
from types import ModuleType
from typing import Any

import torch
from torch import Tensor


def register() -> None:
    """Called by vLLM in each of its processes."""
    from vllm.lora.ops.torch_ops import lora_ops
    from vllm.lora.punica_wrapper import punica_cpu

    modules: tuple[ModuleType, ...] = (lora_ops, punica_cpu)
    for module in modules:
        for name, replacement in REPLACEMENTS.items():
            if not hasattr(module, name):
                raise RuntimeError(
                    f"this vLLM has no {module.__name__}.{name}: serve version 0 apart from adapters"
                )
            setattr(module, name, replacement)
    tell_adapters_apart()
    spare_generators()
    logging.getLogger("vllm.slipstream_plugin").info(
        "Slipstream's plugin is in force: LoRA and seeds are mended"
    )


def tell_adapters_apart() -> None:
    """Two loads of one name are two adapters."""
    from vllm.lora.request import LoRARequest

    def is_equal(self: LoRARequest, other: Any) -> bool:
        return isinstance(other, LoRARequest) and _identity(self) == _identity(other)

    LoRARequest.__eq__ = is_equal  # type: ignore[method-assign]
    LoRARequest.__hash__ = lambda self: hash(_identity(self))  # type: ignore[method-assign]


def _identity(request: Any) -> tuple[str, int]:
    return request.lora_name, request.lora_int_id


def spare_generators() -> None:
    """What is drawn to be dropped is drawn without the request's own generator, where that cannot be wound back."""
    from vllm.platforms import current_platform
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    if current_platform.is_cpu():
        GPUModelRunner.sample_tokens = sparing(GPUModelRunner.sample_tokens)  # type: ignore[method-assign, assignment]


def sparing(sample_tokens: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(sample_tokens)
    def spared(runner: Any, *arguments: Any, **named: Any) -> Any:
        generators = runner.input_batch.generators
        is_dropped = runner.discard_request_mask.np[: runner.input_batch.num_reqs]
        held = {row: generators.pop(row) for row in list(generators) if is_dropped[row]}
        try:
            return sample_tokens(runner, *arguments, **named)
        finally:
            generators.update(held)

    return spared


def bgmv_shrink(
    inputs_NI: Tensor, weights_SRI: Tensor, output_NR: Tensor, indices_N: Tensor, scaling: float = 1.0
) -> None:
    """Output = scaling * inputs @ A.T of each row's adapter; zero where the index is -1."""
    rank = weights_SRI.shape[-2]
    inputs_NI = inputs_NI.to(output_NR.dtype)
    output_NR[:, :rank] = 0
    for slot, rows in _rows_by_slot(indices_N):
        output_NR[rows, :rank] = scaling * (inputs_NI[rows] @ _weight(weights_SRI, slot, output_NR.dtype).T)


def bgmv_expand_slice(
    inputs_NR: Tensor,
    weights_SOR: Tensor,
    output_NO: Tensor,
    indices_N: Tensor,
    slice_offset: int,
    slice_size: int,
    add_inputs: bool = True,
) -> None:
    """output[:, offset : offset + size] += inputs @ B.T of each row's adapter; unchanged where the index is -1."""
    inputs_NR = inputs_NR.to(output_NO.dtype)
    columns = slice(slice_offset, slice_offset + slice_size)
    if not add_inputs:
        output_NO[:, columns] = 0
    for slot, rows in _rows_by_slot(indices_N):
        output_NO[rows, columns] += inputs_NR[rows] @ _weight(weights_SOR, slot, output_NO.dtype).T


def bgmv_expand(
    inputs_NR: Tensor, weights_SOR: Tensor, output_NO: Tensor, indices_N: Tensor, add_inputs: bool = True
) -> None:
    """The slice that begins at 0; adapter and model may pad their output differently."""
    width = min(weights_SOR.shape[-2], output_NO.shape[1])
    bgmv_expand_slice(inputs_NR, weights_SOR[..., :width, :], output_NO, indices_N, 0, width, add_inputs)


REPLACEMENTS = {
    "bgmv_shrink": bgmv_shrink,
    "bgmv_expand": bgmv_expand,
    "bgmv_expand_slice": bgmv_expand_slice,
}


def _rows_by_slot(indices_N: Tensor) -> Iterator[tuple[int, slice | Tensor]]:
    """(slot, which rows use it) for each adapter of the batch."""
    slots = torch.unique(indices_N).tolist()
    if len(slots) == 1 and slots[0] >= 0:
        yield slots[0], slice(None)
        return
    for slot in slots:
        if slot >= 0:
            yield slot, (indices_N == slot).nonzero()[:, 0]


def _weight(stacked: Tensor, slot: int, dtype: torch.dtype) -> Tensor:
    weight = stacked[slot]
    return (weight.squeeze(0) if weight.dim() == 3 else weight).to(dtype)  # noqa: PLR2004 - [1, O, R] or [O, R]
