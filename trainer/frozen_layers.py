"""Layers around frozen weights, with backward passes that know that the weights are frozen and what can be made again.

Each replaces what transformers and peft do in many small operations, and keeps fewer tensors for the backward pass: a row of
SmolLM2 needs less than half the memory. Invariant: only a layer that gives the same answer on a trial is replaced; any
other (a family that computes its norm or its MLP another way) stays as it is.

Legend: N = tokens, I and O = a layer's inputs and outputs, R = the adapter's rank.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Forward = Callable[..., Tensor]
TRIAL_TOKENS = 3
TRIAL_GATES = (-8.0, 8.0, 33)  # where silu and gelu differ, whatever the weights are
AGREEMENT = {torch.float32: 1e-5, torch.bfloat16: 0.02, torch.float16: 4e-3, torch.float64: 1e-10}


class _LoraLinear(torch.autograd.Function):
    """x W^T + bias + scale (x A^T) B^T. Keeps x and x A^T."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w_OI: Tensor, bias_O: Tensor | None, a_RI: Tensor, b_OR: Tensor, scale: float
    ) -> Tensor:
        x_NI = x.reshape(-1, x.shape[-1])
        low_NR = x_NI.to(a_RI.dtype) @ a_RI.T
        ctx.save_for_backward(x_NI, w_OI, a_RI, b_OR, low_NR)
        ctx.scale = scale
        y_NO = _plus(functional.linear(x_NI, w_OI, bias_O), low_NR, b_OR.T, scale)
        return y_NO.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x_NI, w_OI, a_RI, b_OR, low_NR = ctx.saved_tensors
        (g,) = gradients
        g_NO = g.reshape(-1, g.shape[-1])
        g_NR, g_a_RI, g_b_OR = _adapter_gradients(g_NO, x_NI, b_OR, low_NR, ctx.scale)
        g_x = _plus(g_NO @ w_OI, g_NR, a_RI, 1.0).view(*g.shape[:-1], -1) if ctx.needs_input_grad[0] else None
        return g_x, None, None, g_a_RI, g_b_OR, None


class _GatedLoraLinear(torch.autograd.Function):
    """The same for x = silu(gate) * up, which is made again instead of kept: gate and up are."""

    @staticmethod
    def forward(
        ctx: Any, gate: Tensor, up: Tensor, w_OI: Tensor, a_RI: Tensor, b_OR: Tensor, scale: float
    ) -> Tensor:
        gate_NI, up_NI = gate.reshape(-1, gate.shape[-1]), up.reshape(-1, up.shape[-1])
        x_NI = functional.silu(gate_NI).mul_(up_NI)
        low_NR = x_NI.to(a_RI.dtype) @ a_RI.T
        ctx.save_for_backward(gate_NI, up_NI, w_OI, a_RI, b_OR, low_NR)
        ctx.scale = scale
        return _plus(x_NI @ w_OI.T, low_NR, b_OR.T, scale).view(*gate.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gate_NI, up_NI, w_OI, a_RI, b_OR, low_NR = ctx.saved_tensors
        (g,) = gradients
        g_NO = g.reshape(-1, g.shape[-1])
        silu_NI = functional.silu(gate_NI)
        g_NR, g_a_RI, g_b_OR = _adapter_gradients(g_NO, silu_NI * up_NI, b_OR, low_NR, ctx.scale)
        g_x_NI = _plus(g_NO @ w_OI, g_NR, a_RI, 1.0)
        g_up_NI = silu_NI.mul_(g_x_NI)
        g_gate_NI = torch.ops.aten.silu_backward(g_x_NI.mul_(up_NI), gate_NI)
        shape = (*g.shape[:-1], -1)
        return g_gate_NI.view(shape), g_up_NI.view(shape), None, g_a_RI, g_b_OR, None


class _RmsNorm(torch.autograd.Function):
    """x / rms(x) * weight (Zhang and Sennrich 2019, arXiv:1910.07467, eq. 4), in float32. Keeps x and 1 / rms."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_I: Tensor, epsilon: float) -> Tensor:
        exact = x.float()
        scale = torch.linalg.vector_norm(exact, dim=-1, keepdim=True).square_()
        scale = scale.div_(x.shape[-1]).add_(epsilon).rsqrt_()
        ctx.save_for_backward(x, weight_I, scale)
        normed: Tensor = (exact * scale).to(x.dtype)
        return normed.mul_(weight_I)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        x, weight_I, scale = ctx.saved_tensors
        pull = (gradients[0] * weight_I).float()
        exact = x.float()
        slope = (pull * exact).mean(-1, keepdim=True).mul_(scale.pow(3))
        return pull.mul_(scale).addcmul_(exact, slope, value=-1).to(x.dtype), None, None


def _plus(y_NO: Tensor, low_NR: Tensor, b_RO: Tensor, scale: float) -> Tensor:
    """Add scale low b to y, in place. Under a bfloat16 base the adapter's part is computed in its own float32."""
    if y_NO.dtype == low_NR.dtype:
        return y_NO.addmm_(low_NR, b_RO, alpha=scale)
    return y_NO.copy_(torch.addmm(y_NO.to(low_NR.dtype), low_NR, b_RO, alpha=scale))


def _adapter_gradients(
    g_NO: Tensor, x_NI: Tensor, b_OR: Tensor, low_NR: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Of x A^T, of A and of B."""
    g_NO = g_NO.to(b_OR.dtype)
    g_NR = (g_NO @ b_OR).mul_(scale)
    return g_NR, g_NR.T @ x_NI.to(g_NR.dtype), (g_NO.T @ low_NR).mul_(scale)


def lean(network: nn.Module, adapter: str = "default") -> int:
    """Replace what can be; returns how many layers were."""
    found = 0
    module: Any
    for module in network.modules():
        vars(module).pop("forward", None)  # an adapter of another shape was here before
        for make in (_linear, _norm, _mlp):
            forward = make(module, adapter)
            if forward is not None and _agree(module, forward):
                module.forward = forward
                found += 1
    return found


def _linear(module: Any, adapter: str) -> Forward | None:
    base = getattr(module, "base_layer", None)
    if type(base) is not nn.Linear or adapter not in getattr(module, "lora_A", ()):
        return None
    return partial(_linear_forward, module, module.forward, adapter)


def _linear_forward(
    module: Any, peft_forward: Forward, adapter: str, x: Tensor, *args: Any, **told: Any
) -> Tensor:
    if module.disable_adapters or module.merged or args or told:
        return peft_forward(x, *args, **told)
    base, (a_RI, b_OR, scale) = module.base_layer, _adapter_of(module, adapter)
    return _apply(_LoraLinear, x, base.weight, base.bias, a_RI, b_OR, scale)


def _norm(module: Any, _adapter: str) -> Forward | None:
    if not type(module).__name__.endswith("RMSNorm") or not hasattr(module, "variance_epsilon"):
        return None
    return lambda x: _apply(_RmsNorm, x, module.weight, module.variance_epsilon)


def _mlp(module: Any, adapter: str) -> Forward | None:
    parts = [getattr(module, name, None) for name in ("gate_proj", "up_proj", "down_proj")]
    down = parts[2]
    if not all(_linear(part, adapter) for part in parts) or down is None or down.base_layer.bias is not None:
        return None
    if not _is_silu(getattr(module, "act_fn", None)):
        return None
    return partial(_mlp_forward, module, module.forward, adapter)


def _is_silu(activation: Any) -> bool:
    """Asked by itself: small weights make every gate a half, and in bfloat16 another one would pass the trial."""
    gates = torch.linspace(*TRIAL_GATES)
    return activation is not None and torch.allclose(activation(gates), functional.silu(gates), atol=1e-6)


def _mlp_forward(module: Any, plain_forward: Forward, adapter: str, x: Tensor) -> Tensor:
    down = module.down_proj
    if down.disable_adapters or down.merged:
        return plain_forward(x)
    a_RI, b_OR, scale = _adapter_of(down, adapter)
    return _apply(
        _GatedLoraLinear, module.gate_proj(x), module.up_proj(x), down.base_layer.weight, a_RI, b_OR, scale
    )


def _adapter_of(module: Any, adapter: str) -> tuple[Tensor, Tensor, float]:
    return module.lora_A[adapter].weight, module.lora_B[adapter].weight, module.scaling[adapter]


def _apply(function: Any, *inputs: Any) -> Tensor:
    found: Tensor = function.apply(*inputs)
    return found


def _agree(module: Any, forward: Forward) -> bool:
    """Both on the same random tokens."""
    weight = next(module.parameters())
    if weight.is_meta:
        return False
    width = _width(module)
    random = torch.Generator().manual_seed(0)
    x = torch.randn(1, TRIAL_TOKENS, width, generator=random).to(weight.device, _base_dtype(module))
    with torch.no_grad():
        before, after = module(x), forward(x)
    bound = AGREEMENT.get(before.dtype, 0.0) * float(before.abs().max())
    if (before.shape, before.dtype) != (after.shape, after.dtype):
        return False
    return bool((before - after).abs().max() <= bound)


def _width(module: Any) -> int:
    linear = getattr(module, "gate_proj", module)
    base = getattr(linear, "base_layer", None)
    return int(module.weight.shape[0] if base is None else base.in_features)


def _base_dtype(module: Any) -> torch.dtype:
    linear = getattr(module, "gate_proj", module)
    found: torch.dtype = getattr(linear, "base_layer", linear).weight.dtype
    return found
