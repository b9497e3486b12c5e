"""One optimizer step: rows forward and backward one after another, then the adapter moves once.

Invariant: whatever is not finite stops before the optimizer and is named. The split into rows changes no gradient.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from trainer.errors import BatchError
from trainer.fitting import fitting, is_out_of_memory
from trainer.gradients import GradientSum
from trainer.grpo.loss import NotFiniteError, row_loss
from trainer.grpo.metrics import LossMetrics
from trainer.grpo.packing import PackedRow, num_forwarded_tokens
from trainer.grpo.samples import Sample
from trainer.grpo.step_size import StepSize
from trainer.policy_model import PolicyModel, deterministic
from trainer.schedule import learning_rate_at
from trainer.settings import TrainerSettings


def update(
    model: PolicyModel,
    samples: Sequence[Sample],
    settings: TrainerSettings,
    *,
    optimizer_step: int,
    between_rows: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Learn once from all samples; returns the metrics. `model` has been reset to the parent.

    `optimizer_step` counts this policy's steps from 1, for the warm-up. `between_rows` may raise to stop. The model's
    peers do the same with the same samples, and come to the same result.
    Raises BatchError where a token is unknown, or a loss or a gradient not finite: the weights are then as before.
    """
    require_known_tokens(samples, model.vocabulary_size)
    rate = learning_rate_at(settings, optimizer_step)
    model.begin(rate, (settings.adam_beta1, settings.adam_beta2), settings.weight_decay)
    with deterministic(model.device):
        metrics, rows, facts = gradients_of(model, samples, settings, between_rows)
        grad_norm = _move(model, samples, settings.grad_clip)
    return {
        **metrics.summary(),
        **facts,
        **model.peers.deal(rows).facts,
        "grad_norm": grad_norm,
        "learning_rate": rate,
        "num_trained_tokens": metrics.num_tokens,
        "num_rows": len(rows),
        "num_packed_tokens": num_forwarded_tokens(rows),
        "num_unpacked_tokens": sum(row.num_unpacked_tokens for row in rows),
    }


def gradients_of(
    model: PolicyModel,
    samples: Sequence[Sample],
    settings: TrainerSettings,
    between_rows: Callable[[], None],
) -> tuple[LossMetrics, list[PackedRow], dict[str, Any]]:
    """As `fitting` gives them; the gradients are in the adapter's parameters. Raises BatchError where one is not finite."""
    try:
        found = fitting(
            model, samples, settings, lambda rows: accumulate(model, rows, settings, between_rows)
        )
        require_finite_gradients(model)
    except ArithmeticError as error:
        raise BatchError(str(error)) from error
    return found


def _move(model: PolicyModel, samples: Sequence[Sample], grad_clip: float) -> float:
    """Equal rewards move nothing, to the bit: not by weight decay, by momentum or towards the base either."""
    if any(span.advantage for sample in samples for span in sample.spans):
        return model.apply(grad_clip)
    model.rest()
    return 0.0


def accumulate(
    model: PolicyModel,
    rows: Iterable[PackedRow],
    settings: TrainerSettings,
    between_rows: Callable[[], None] = lambda: None,
) -> LossMetrics:
    """Gradients of the whole step in the adapter's parameters, and the loss' metrics. `rows` are all of the step; of them
    the model computes those that are dealt to it among its peers.
    """
    rows, gradients = list(rows), GradientSum(model.lora)
    try:
        metrics = pass_rows(model, rows, gradients, settings, between_rows)
    except (MemoryError, RuntimeError) as error:
        if is_out_of_memory(error):
            model.peers.run_out()
        raise
    metrics = model.peers.total(metrics, gradients)
    gradients.give()
    return metrics


def pass_rows(
    model: PolicyModel,
    rows: Sequence[PackedRow],
    gradients: GradientSum,
    settings: TrainerSettings,
    between_rows: Callable[[], None],
) -> LossMetrics:
    """Of the rows that are ours, into `gradients`, and idly where others have more."""
    deal, size, metrics = model.peers.deal(rows), StepSize.of(rows), LossMetrics()
    for row in deal.rows:
        between_rows()
        metrics += learn_row(model, on_device(row, model.device), size, settings)
        gradients.take()
    for _ in range(deal.num_idle):
        between_rows()
        pass_idly(model, on_device(shortest(rows), model.device), settings)
        gradients.take()
    model.close_stems()
    gradients.take()
    return metrics


def learn_row(model: PolicyModel, row: PackedRow, size: StepSize, settings: TrainerSettings) -> LossMetrics:
    """Forward and backward: the row's gradients in the adapter's parameters, and its metrics."""
    base_logprobs_T = model.base_logprobs(row) if settings.kl else None
    policy_logprobs_T, entropies_T = model.logprobs(row)
    loss, metrics = row_loss(
        row,
        policy_logprobs_T,
        size,
        settings.loss_settings(),
        entropies_T=entropies_T,
        base_logprobs_T=base_logprobs_T,
    )
    loss.backward()  # type: ignore[no-untyped-call]
    return metrics


def pass_idly(model: PolicyModel, row: PackedRow, settings: TrainerSettings) -> None:
    """The passes of `learn_row`, as often and in its order, with no gradient: the others' passes need our shards."""
    if settings.kl:
        model.base_logprobs(row)
    (model.logprobs(row)[0].sum() * 0.0).backward()  # type: ignore[no-untyped-call]


def shortest(rows: Sequence[PackedRow]) -> PackedRow:
    return min(rows, key=lambda row: len(row.token_ids_L))


def require_known_tokens(samples: Sequence[Sample], vocabulary_size: int) -> None:
    """Before the model sees them: on a GPU an unknown id takes the whole process with it."""
    for sample in samples:
        if max(sample.token_ids) < vocabulary_size:
            continue
        position = next(i for i, token_id in enumerate(sample.token_ids) if token_id >= vocabulary_size)
        span = next((span for span in sample.spans if position < span.stop), sample.spans[-1])
        raise BatchError(
            f"exchange {span.exchange_id} holds token {sample.token_ids[position]}, and SLIPSTREAM_BASE_MODEL has only "
            f"{vocabulary_size}: vLLM must serve the very model that is trained"
        )


def require_finite_gradients(model: PolicyModel) -> None:
    for name, parameter in model.lora.items():
        if parameter.grad is not None and not bool(torch.isfinite(parameter.grad).all()):
            raise NotFiniteError(f"the gradient of {name} is not finite")


def on_device(row: PackedRow, device: torch.device) -> PackedRow:
    if device.type == "cpu":
        return row
    moved: dict[str, Any] = {
        name: value.to(device, non_blocking=True)
        for name in row.__slots__
        if isinstance(value := getattr(row, name), torch.Tensor)
    }
    return replace(row, **moved)
