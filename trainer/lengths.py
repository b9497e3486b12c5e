"""How long the sequences are that a step learns from: of every kind of step, since it looks at samples. Pure."""

from collections.abc import Sequence
from math import fsum
from typing import Any

from trainer.grpo.samples import Sample


def length_metrics(samples: Sequence[Sample]) -> dict[str, Any]:
    """Example: a sample of 10 tokens with turns sampled at 4 <= i < 6 and 9 <= i < 10: prompts of 4 and 9 tokens, completions
    of 2 and 1.
    """
    spans = [span for sample in samples for span in sample.spans]
    return _of("prompt", [span.start for span in spans]) | _of(
        "completion", [span.stop - span.start for span in spans]
    )


def _of(name: str, lengths: list[int]) -> dict[str, Any]:
    mean = fsum(lengths) / len(lengths) if lengths else None
    return {f"{name}_tokens_mean": mean, f"{name}_tokens_max": max(lengths, default=None)}
