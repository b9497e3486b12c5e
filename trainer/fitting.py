"""A step within the memory there is: the fastest cut into rows that fits, and a smaller one where memory runs out anyway.

Invariant: the gradients are the same whatever the cut, so what is tried again changes nothing but the time it takes.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import structlog
import torch

from trainer.errors import BatchError
from trainer.grpo.head_chunks import chunk_tokens
from trainer.grpo.packing import PackedRow, pack
from trainer.grpo.samples import Sample
from trainer.grpo.stems import NO_STEMS, min_saved_on
from trainer.memory import begin_peak, give_memory_back
from trainer.memory_plan import REMEDY, choose_cuts
from trainer.policy_model import PolicyModel
from trainer.settings import TrainerSettings

logger = structlog.get_logger()
Found = TypeVar("Found")


def fitting(
    model: PolicyModel,
    samples: Sequence[Sample],
    settings: TrainerSettings,
    compute: Callable[[list[PackedRow]], Found],
) -> tuple[Found, list[PackedRow], dict[str, Any]]:
    """What `compute` makes of the rows, the rows, and what the step's metrics say about them.

    Raises BatchError where even the smallest cut does not fit. Whatever else `compute` raises passes through.
    """
    is_gpu = model.device.type != "cpu"
    chunk = chunk_tokens(model.vocabulary_size, is_gpu=is_gpu)
    min_saved = NO_STEMS if model.peers.needs_equal_passes else min_saved_on(is_gpu=is_gpu)
    cuts = choose_cuts(model.memory_shape, samples, settings, chunk, min_saved)
    begin_peak()
    for num_retries, cut in enumerate(cuts):
        model.checkpoints.is_on = cut.is_checkpointing
        rows = pack(samples, cut.row_tokens, min_saved)
        facts = {
            "row_tokens": cut.row_tokens,
            "gradient_checkpointing": cut.is_checkpointing,
            "predicted_memory_mib": cut.predicted_mib,
            "num_memory_retries": num_retries,
        }
        try:
            found = compute(rows)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            logger.warning("memory_ran_out", **facts, memory_mib=settings.memory_mib)
        else:
            give_memory_back()
            return found, rows, facts
        _start_over(model)
    raise BatchError(f"Memory ran out even with rows of {cuts[-1].row_tokens} tokens. {REMEDY}")


def is_out_of_memory(error: Exception) -> bool:
    """A CPU's allocator raises a plain RuntimeError."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)


def _start_over(model: PolicyModel) -> None:
    """After the failed attempt's frames, and what they held, are gone."""
    model.forget()
    give_memory_back()
    if model.device.type == "cuda":
        torch.cuda.empty_cache()
