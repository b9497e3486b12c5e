"""How much memory a step will need, before it begins, and what it does about it.

A formula from the model's configuration; measured errors stand in docs/decisions/0023-memory.md. Pure but for `fitted`.
Invariant (I9): what was decided is kept with the step (`memory_mib`, `sample_max_tokens`), so an attempt that goes on
elsewhere cuts the same rows. Legend: K = tokens of a row's stems and its own, L = its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from trainer.attention_window import shortest_window
from trainer.errors import BatchError, SurroundingsError
from trainer.grpo.head_chunks import chunk_tokens
from trainer.grpo.samples import Sample
from trainer.grpo.stems import num_own_tokens, plan_rows
from trainer.memory import available_mib, is_gpu
from trainer.policy_settings import trained_settings
from trainer.setting_types import Checkpointing
from trainer.settings import TrainerSettings

logger = structlog.get_logger()
MIB = 1 << 20
PROCESS_MIB = 420  # Python with torch, transformers and peft, before a model is loaded
SHARE = 0.9  # of what is available: allocators lose some between their blocks
MIN_ROW_TOKENS = 64
REMEDY = "Give it more (SLIPSTREAM_TRAINER_MEMORY_MIB says how much it may use), or lower SLIPSTREAM_SAMPLE_MAX_TOKENS."
CHUNK_BUFFERS = 4  # logits, logprobs, probabilities, and one between them


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Example, SmolLM2-135M: 30 layers, hidden 576, intermediate 1536, attention 9 x 64 = 576, key_value 3 x 64 = 192."""

    num_layers: int
    hidden: int
    intermediate: int
    attention: int
    key_value: int
    vocabulary: int
    is_tied: bool
    rank: int
    number_bytes: int  # 4: float32, 2: bfloat16
    num_shards: int = 1  # processes that the layers' weights are split over

    @property
    def base_parameters(self) -> int:
        """Of the base that one process holds: all, or its shard and two layers whole for a moment."""
        layer = self.hidden * (2 * self.attention + 2 * self.key_value + 3 * self.intermediate)
        layers = self.num_layers * layer // self.num_shards + (2 * layer if self.num_shards > 1 else 0)
        return layers + self.vocabulary * self.hidden * (1 if self.is_tied else 2)

    @property
    def adapter_parameters(self) -> int:
        attention = 4 * self.hidden + 2 * self.attention + 2 * self.key_value
        return self.num_layers * self.rank * (attention + 3 * (self.hidden + self.intermediate))

    @property
    def kept_by_layer(self) -> int:
        """Numbers a token leaves in a layer for its backward pass (trainer/frozen_layers.py)."""
        lows = 7 * self.rank * 4 // self.number_bytes
        return 4 * self.hidden + 5 * self.attention + 2 * self.intermediate + lows


def shape_of(config: Any, rank: int, number_bytes: int) -> ModelShape:
    """From transformers' configuration."""
    text = config.get_text_config()
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return ModelShape(
        num_layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        intermediate=getattr(text, "intermediate_size", None) or 4 * text.hidden_size,
        attention=text.num_attention_heads * head,
        key_value=(getattr(text, "num_key_value_heads", None) or text.num_attention_heads) * head,
        vocabulary=text.vocab_size,
        is_tied=bool(text.tie_word_embeddings),
        rank=rank,
        number_bytes=number_bytes,
    )


def predicted_mib(
    shape: ModelShape, kept_tokens: int, row_tokens: int, chunk: int, *, is_checkpointing: bool
) -> int:
    """Peak of a step whose longest row holds `row_tokens` (L) of its `kept_tokens` (K)."""
    number = shape.number_bytes
    fixed = shape.base_parameters * number + shape.adapter_parameters * (4 * 5 + 8)
    layer = shape.kept_by_layer * number
    if is_checkpointing:
        kept = kept_tokens * (shape.num_layers * (shape.hidden + 2 * shape.key_value) * number + layer)
    else:
        kept = kept_tokens * shape.num_layers * layer
    kept += kept_tokens * 3 * shape.hidden * number
    working = row_tokens * (5 * shape.intermediate + 4 * shape.attention) * number
    mask = row_tokens * kept_tokens * (1 + 2 * number)
    head = chunk * shape.vocabulary * 4 * CHUNK_BUFFERS
    return PROCESS_MIB + (fixed + kept + working + mask + head) // MIB


def longest_sample(shape: ModelShape, memory_mib: int, wish: Checkpointing, chunk: int, most: int) -> int:
    """The longest sample that a step can be made for at all, up to `most`; 0 if there is no room for any."""
    fits = [
        tokens
        for tokens in _halving(most)
        if predicted_mib(
            shape,
            tokens + MIN_ROW_TOKENS,
            tokens,
            chunk,
            is_checkpointing=wish is not Checkpointing.OFF,
        )
        <= memory_mib * SHARE
    ]
    return max(fits, default=0)


def _halving(most: int) -> list[int]:
    """Lengths to try: 16 between each and its half. Example: 64 -> 64, 62, 60, ..., 34, 32, 31, ..."""
    lengths, top = set[int](), most
    while top >= 1:
        lengths |= {top - top * part // 32 for part in range(16)}
        top //= 2
    return sorted(lengths, reverse=True)


@dataclass(frozen=True, slots=True)
class Cut:
    """How a step is cut into rows, and the peak that is expected of it."""

    row_tokens: int
    is_checkpointing: bool
    predicted_mib: int = 0


def cuts(settings: TrainerSettings) -> list[Cut]:
    """From the fastest to the smallest: shorter rows cost little (a group's prompt is its rows' stem), checkpointing a third."""
    ways = {Checkpointing.AUTO: (False, True), Checkpointing.ON: (True,), Checkpointing.OFF: (False,)}
    lengths = [settings.row_tokens]
    while lengths[-1] // 2 >= MIN_ROW_TOKENS:
        lengths.append(lengths[-1] // 2)
    return [Cut(length, way) for way in ways[settings.gradient_checkpointing] for length in lengths]


def choose_cuts(
    shape: ModelShape, samples: Sequence[Sample], settings: TrainerSettings, chunk: int, min_saved: int
) -> list[Cut]:
    """The fastest that fits, and the smaller ones after it for when memory runs out all the same.

    Raises BatchError where none fits, with what would help.
    """
    found = [_with_prediction(cut, shape, samples, chunk, min_saved) for cut in cuts(settings)]
    memory_mib = settings.memory_mib
    if memory_mib is None:
        return found
    while found and found[0].predicted_mib > memory_mib * SHARE:
        found.pop(0)
    if not found:
        raise BatchError(f"The step needs more than the {memory_mib} MiB that the trainer has. {REMEDY}")
    return found


def _with_prediction(
    cut: Cut, shape: ModelShape, samples: Sequence[Sample], chunk: int, min_saved: int
) -> Cut:
    rows = plan_rows(samples, cut.row_tokens, min_saved)
    own = [num_own_tokens(row) for row in rows]
    kept = [
        tokens + (0 if row.stem is None else row.stem.stop) for tokens, row in zip(own, rows, strict=True)
    ]
    peak = predicted_mib(
        shape, max(kept, default=0), max(own, default=0), chunk, is_checkpointing=cut.is_checkpointing
    )
    return replace(cut, predicted_mib=peak)


def fitted(settings: TrainerSettings) -> TrainerSettings:
    """What memory there is now, and for each policy that is trained samples no longer than fit into it, nor longer than the
    base's attention reaches.

    Called once, before a model is loaded: every step that this worker begins keeps it. Raises SurroundingsError where not even
    a short sample fits: with such a bound every group would be closed as too long, for good.
    """
    settings = settings.model_copy(
        update={"memory_mib": settings.memory_mib or _available_mib_of_each(settings)}
    )
    tables, own_most = dict(settings.policies), settings.sample_max_tokens
    for own in trained_settings(settings):
        if (most := _most_tokens(own)) == own.sample_max_tokens:
            continue
        facts = {"policy": own.policy, "sample_max_tokens": most, "memory_mib": own.memory_mib}
        logger.warning("samples_bounded", **facts, remedy=REMEDY)
        if own.policy in tables:
            tables[own.policy] = tables[own.policy] | {"sample_max_tokens": most}
        else:
            own_most = most
    return settings.model_copy(update={"policies": tables, "sample_max_tokens": own_most})


def _most_tokens(settings: TrainerSettings) -> int:
    """Of one policy's samples; a base that is not known yet bounds nothing."""
    memory_mib, most, config = settings.memory_mib, settings.sample_max_tokens, base_config(settings)
    if config is None or memory_mib is None:
        return most
    shape, most = base_shape(config, settings), min(most, shortest_window(config) or most)
    chunk = chunk_tokens(shape.vocabulary, is_gpu=is_gpu(settings.device))
    fits = longest_sample(shape, memory_mib, settings.gradient_checkpointing, chunk, most)
    if fits < min(MIN_ROW_TOKENS, most):
        raise SurroundingsError(
            f"{settings.base_model} cannot be trained within the {memory_mib} MiB that there are. {REMEDY}"
        )
    return fits


def _available_mib_of_each(settings: TrainerSettings) -> int:
    """Processes on a GPU have one each; on the CPU they share what there is."""
    return available_mib(settings.device) // (1 if is_gpu(settings.device) else settings.processes)


def base_config(settings: TrainerSettings) -> Any:
    """The base's config.json; None where it cannot be read (loading the base will say why)."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(settings.base_model)
    except (OSError, ValueError):
        return None


def base_shape(config: Any, settings: TrainerSettings) -> ModelShape:
    shape = shape_of(config, settings.lora_rank, 2 if is_gpu(settings.device) else 4)
    return replace(shape, num_shards=settings.processes if settings.shard == "fsdp" else 1)
