"""DPO's numbers by hand, and its gradient against plain autograd in float64."""

import math
from pathlib import Path
from uuid import UUID

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.reference import Reference
from tests.trainer.test_loss_reference import assert_close, gradients, stir
from tests.trainer.tiny import turn
from trainer.grpo.packing import pack
from trainer.grpo.samples import Sample, merge_turns
from trainer.imitation.learning import LIKELIHOOD
from trainer.material import Pair
from trainer.policy_model import PolicyModel
from trainer.preference.arithmetic import coefficient, figures, loss_of, side_weights
from trainer.preference.learning import weighted
from trainer.preference.likelihood import side_logprobs
from trainer.update import accumulate

BETA = 0.4


def test_numbers_worked_out_by_hand() -> None:
    """Margin 0: log 2, and half of beta. Margin 2 with beta 0.5: x = 1, log(1 + e^-1), 0.5 / (1 + e)."""
    assert loss_of(0.0, 0.1) == pytest.approx(math.log(2))
    assert coefficient(0.0, 0.1) == pytest.approx(0.05)
    assert loss_of(2.0, 0.5) == pytest.approx(0.3132617)
    assert coefficient(2.0, 0.5) == pytest.approx(0.1344707)
    pairs = [Pair(UUID(int=1), 0, 1), Pair(UUID(int=2), 1, 2)]
    assert side_weights(pairs, [0.0, 0.0, 0.0], 0.1) == pytest.approx({0: 0.025, 1: 0.0, 2: -0.025})
    assert figures(pairs, [0.5, -0.25, 0.0], 1.0) == pytest.approx(
        {"loss": (0.3868710 + 0.8259394) / 2, "accuracy": 0.5, "margin": 0.25}, rel=1e-5
    )


@given(st.floats(-1e4, 1e4), st.floats(0.01, 10.0))
def test_a_pair_pulls_by_the_slope_of_its_loss(margin: float, beta: float) -> None:
    """Law: the coefficient is minus the derivative of the loss; nothing overflows; the weights of a pair sum to 0."""
    step = 1e-4
    slope = (loss_of(margin + step, beta) - loss_of(margin - step, beta)) / (2 * step)
    assert coefficient(margin, beta) == pytest.approx(-slope, abs=1e-4)
    assert sum(side_weights([Pair(UUID(int=1), 0, 1)], [margin, 0.0], beta).values()) == 0.0


def sides_and_pairs() -> tuple[list[tuple[Sample, ...]], list[Pair]]:
    """One prompt with three answers, A > B and B > C, and a talk of two turns against a single answer."""
    sides = [
        tuple(merge_turns([turn(number, [5, 6, 7], answer)]))
        for number, answer in enumerate(([9, 2], [8, 8, 2], [3, 2]), start=1)
    ]
    talk = [turn(4, [11, 12], [13, 2]), turn(5, [11, 12, 13, 2, 20, 21], [22, 23, 2])]
    sides += [tuple(merge_turns(talk)), tuple(merge_turns([turn(6, [11, 12], [30, 31, 2])]))]
    return sides, [Pair(UUID(int=1), 0, 1), Pair(UUID(int=2), 1, 2), Pair(UUID(int=3), 4, 3)]


@pytest.mark.parametrize("row_tokens", [1, 12, 10_000])
def test_two_passes_have_the_gradient_of_dpos_loss(
    model: PolicyModel, tiny_path: Path, settings_of, row_tokens
) -> None:
    """arXiv:2305.18290, eq. 7, written down once more, with autograd through the whole of it."""
    stir(model)
    sides, pairs = sides_and_pairs()
    reference = Reference(str(tiny_path), model.lora, scale=16.0 / 8)

    def logprob(side: tuple[Sample, ...]) -> torch.Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for sample in side:
            logits = reference.network(torch.tensor([sample.token_ids])).logits[0].log_softmax(-1)
            for span in sample.spans:
                for index in range(span.start, span.stop):
                    total = total + logits[index - 1, sample.token_ids[index]]
        return total

    reference.is_on = False
    with torch.no_grad():
        base = [logprob(side) for side in sides]
    reference.is_on = True
    now = [logprob(side) for side in sides]
    expected = torch.stack(
        [
            -torch.nn.functional.logsigmoid(
                BETA * ((now[p.preferred] - base[p.preferred]) - (now[p.other] - base[p.other]))
            )
            for p in pairs
        ]
    ).mean()
    expected.backward()

    both = [
        side_logprobs(model, sides=sides, row_tokens=row_tokens, between_rows=lambda: None, is_base=is_base)
        for is_base in (False, True)
    ]
    assert both[1] == pytest.approx([float(b) for b in base], rel=1e-5)
    log_ratios = [one - other for one, other in zip(*both, strict=True)]
    assert figures(pairs, log_ratios, BETA)["loss"] == pytest.approx(expected.item(), rel=1e-4)
    samples = weighted(sides, side_weights(pairs, log_ratios, BETA))
    of_rewards = settings_of(
        loss="ppo", normalize="sequences", importance="sequence", kl=0.2
    )  # of no account here
    accumulate(model, pack(samples, row_tokens), of_rewards.model_copy(update=LIKELIHOOD))
    assert_close(gradients(model), {k: v.grad for k, v in reference.lora.items()}, 1e-4)
