"""The update of a step of dpo: per batch a pass without gradient that weighs each side, then one of weighted likelihood.

Invariant: the gradient is that of DPO's loss (trainer.preference.arithmetic). Moments as in a step of sft.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite

from trainer.claim import Step
from trainer.errors import BatchError
from trainer.grpo.samples import Sample
from trainer.imitation.learning import batches, begin, length_of, one_step, summary, with_moments_of
from trainer.learned import Learned, learned_of
from trainer.material import Material, Pair
from trainer.parent import Parent
from trainer.policy_model import PolicyModel
from trainer.preference.arithmetic import figures, side_weights
from trainer.preference.build import wish_of
from trainer.preference.likelihood import side_logprobs
from trainer.settings import TrainerSettings


def learn(
    model: PolicyModel,
    parent: Parent,
    material: Material,
    settings: TrainerSettings,
    step: Step,
    between_rows: Callable[[], None] = lambda: None,
) -> Learned:
    """Raises BatchError where a number is not finite; the parent is then as it was."""
    wish = wish_of(step)
    beta, epochs = wish.beta or settings.dpo_beta, wish.epochs or settings.dpo_epochs
    begin(model, parent, settings, settings.dpo_learning_rate)
    pairs, sides = material.pairs, _Sides(model, material, settings, between_rows)
    before = figures(pairs, sides.log_ratios(), beta)
    seen = []
    for batch in batches(pairs, sides.length_of, settings.sft_batch_tokens, epochs, step.seed):
        weights = side_weights(batch, sides.log_ratios(batch), beta)
        seen.append(one_step(model, weighted(material.sides, weights), settings, between_rows))
    after = figures(pairs, sides.log_ratios(), beta)
    metrics = {
        **{name: value for name, value in summary(seen).items() if "loss" not in name},
        **after,
        **{f"{name}_before": value for name, value in before.items()},
        "beta": beta,
        "learning_rate": settings.dpo_learning_rate,
        "num_epochs": epochs,
        "num_trained_tokens": sum(sample.num_sampled for sample in material.samples),
    }
    return with_moments_of(parent, learned_of(model, settings.base_model, parent.optimizer_step, metrics))


def weighted(sides: Sequence[tuple[Sample, ...]], weights: dict[int, float]) -> list[Sample]:
    """Samples whose likelihood loss has DPO's gradient: the mean over tokens that a row takes is undone."""
    num_tokens = sum(sample.num_sampled for place in weights for sample in sides[place])
    return [
        replace(sample, spans=tuple(replace(s, advantage=weight * num_tokens) for s in sample.spans))
        for place, weight in weights.items()
        for sample in sides[place]
    ]


class _Sides:
    """How likely each side is now, compared with the base model, which is asked once."""

    def __init__(
        self,
        model: PolicyModel,
        material: Material,
        settings: TrainerSettings,
        between_rows: Callable[[], None],
    ) -> None:
        self._material = material
        self._logprobs = partial(
            side_logprobs, model, row_tokens=settings.row_tokens, between_rows=between_rows
        )
        self._base_S = self._logprobs(sides=material.sides, is_base=True)

    def log_ratios(self, pairs: Sequence[Pair] | None = None) -> list[float]:
        """By side; 0.0 for those that are not in `pairs`. Raises BatchError where one is not finite."""
        pairs = self._material.pairs if pairs is None else pairs
        places = sorted({place for pair in pairs for place in (pair.preferred, pair.other)})
        now = self._logprobs(sides=[self._material.sides[place] for place in places], is_base=False)
        found_S = [0.0] * len(self._base_S)
        for place, logprob in zip(places, now, strict=True):
            found_S[place] = logprob - self._base_S[place]
        for pair in pairs:
            if not isfinite(found_S[pair.preferred] - found_S[pair.other]):
                raise BatchError(f"comparison {pair.comparison_id} gives a likelihood that is not finite")
        return found_S

    def length_of(self, pair: Pair) -> int:
        sides = self._material.sides
        return sum(map(length_of, (*sides[pair.preferred], *sides[pair.other])))
