"""The loss by hand, its masks, and where numbers that are not finite stop."""

from dataclasses import replace
from math import exp, log
from uuid import UUID

import pytest
import torch

from tests.trainer.tiny import turn
from trainer.grpo.head import token_logprobs
from trainer.grpo.loss import NotFiniteError, row_loss
from trainer.grpo.loss_settings import LossKind, LossSettings
from trainer.grpo.packing import PackedRow, pack
from trainer.grpo.samples import Turn, merge_turns
from trainer.grpo.step_size import StepSize


def row_of(*turns: Turn) -> PackedRow:
    (row,) = pack([sample for made in turns for sample in merge_turns([made])], 10_000)
    return row


def test_loss_of_three_exchanges_by_hand() -> None:
    """B123: sums over tokens, divided by the tokens of the step, not by rows."""
    row = row_of(
        turn(1, [5], [7], advantage=1.0, sampling_logprob=log(0.5)),
        turn(2, [5], [8, 2], advantage=-0.5, sampling_logprob=log(0.25)),
        turn(3, [6], [9], advantage=2.0, sampling_logprob=log(0.1)),
    )
    policy_logprobs_T = torch.tensor([log(0.5), log(0.25), log(0.5), log(0.4)])
    # ratios 1, 1, 2, 4 -> cap 3. Terms: -1*1*log.5, +.5*1*log.25, +.5*2*log.5, -2*3*log.4; over 8 tokens
    expected = (-log(0.5) + 0.5 * log(0.25) + 0.5 * 2 * log(0.5) - 2 * 3 * log(0.4)) / 8
    loss, metrics = row_loss(row, policy_logprobs_T, StepSize(8, 2), LossSettings())
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert metrics.num_clipped == 1
    assert metrics.summary()["ratio_mean"] == pytest.approx((1 + 1 + 2 + 4) / 4)
    assert metrics.summary()["ratio_max"] == pytest.approx(4)


def test_ppo_clips_only_where_the_bound_makes_it_worse() -> None:
    row = row_of(turn(1, [5], [7], 1.0, 1.0, 0.0), turn(2, [5], [8], -1.0, 1.0, 0.0))
    policy_logprobs_T = torch.tensor([log(2.0), log(2.0)])  # ratio 2 twice
    loss, metrics = row_loss(
        row, policy_logprobs_T, StepSize(2, 2), LossSettings(kind=LossKind.PPO, clip_high=0.28)
    )
    assert loss.item() == pytest.approx(-(1.28 - 2.0) / 2)
    assert metrics.num_clipped == 1


def test_nll_weighs_the_likelihood_and_looks_at_no_sampling_logprob() -> None:
    row = row_of(
        turn(1, [5], [7, 2], advantage=1.0, sampling_logprob=float("nan")),
        turn(2, [5], [8], advantage=-0.5, sampling_logprob=-90.0),
    )
    policy_logprobs_T = torch.tensor([-1.0, -2.0, -4.0], requires_grad=True)
    loss, metrics = row_loss(row, policy_logprobs_T, StepSize(6, 2), LossSettings(kind=LossKind.NLL))
    loss.backward()
    assert loss.item() == pytest.approx((1.0 + 2.0 - 0.5 * 4.0) / 6)
    torch.testing.assert_close(policy_logprobs_T.grad, torch.tensor([-1.0, -1.0, 0.5]) / 6)
    assert metrics.num_masked == metrics.num_clipped == 0


@pytest.mark.parametrize("kind", [LossKind.CISPO, LossKind.PPO])
@pytest.mark.parametrize("kl_weight", [0.0, 0.5])
def test_a_masked_token_gets_no_gradient_however_far_off_it_is(kind, kl_weight) -> None:
    row = row_of(turn(1, [5], [7, 8, 2], sampling_logprob=-1.0))
    policy_logprobs_T = torch.tensor([-1.1, -200.0, -0.9], requires_grad=True)
    settings = LossSettings(kind=kind, trust_log_ratio=2.0, kl_weight=kl_weight)
    loss, metrics = row_loss(
        row, policy_logprobs_T, StepSize(3, 2), settings, base_logprobs_T=torch.tensor([-1.0] * 3)
    )
    loss.backward()
    assert policy_logprobs_T.grad[1] == 0.0
    assert all(policy_logprobs_T.grad[[0, 2]] != 0)
    assert metrics.num_masked == 1
    assert metrics.summary()["masked_exchange_fraction"] == 1.0  # B118: masking of long outputs is visible


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.3])
def test_on_policy_the_ratio_is_one_at_any_temperature(temperature) -> None:
    """B116: both logprobs are those of the distribution that was sampled from."""
    torch.manual_seed(0)
    hidden_TH, weight_VH = torch.randn(2, 8), torch.randn(11, 8)
    target_T = torch.tensor([3, 7])
    expected = (hidden_TH @ weight_VH.T / temperature).log_softmax(-1)[[0, 1], target_T]
    found_T, _ = token_logprobs(hidden_TH, weight_VH, target_T, torch.tensor([temperature] * 2))
    torch.testing.assert_close(found_T, expected)
    row = row_of(turn(1, [5], [3, 7], temperature=temperature))
    row = replace(row, sampling_logprobs_T=expected)
    _, metrics = row_loss(row, found_T, StepSize(2, 2), LossSettings())
    assert metrics.summary()["ratio_mean"] == pytest.approx(1.0, abs=1e-5)


def test_the_head_in_chunks_has_the_gradient_and_entropy_of_plain_softmax() -> None:
    torch.manual_seed(0)
    hidden_TH = torch.randn(700, 8, dtype=torch.float64, requires_grad=True)  # three chunks
    weight_VH = torch.randn(11, 8, dtype=torch.float64)
    target_T, temperatures_T = torch.randint(0, 11, (700,)), torch.rand(700, dtype=torch.float64) + 0.5
    found_T, entropies_T = token_logprobs(hidden_TH, weight_VH, target_T, temperatures_T)
    plain_TV = (hidden_TH @ weight_VH.T / temperatures_T[:, None]).log_softmax(-1)
    torch.testing.assert_close(found_T, plain_TV.gather(1, target_T[:, None])[:, 0])
    torch.testing.assert_close(entropies_T, -(plain_TV.exp() * plain_TV).sum(-1))
    weights_T = torch.randn(700, dtype=torch.float64)
    (expected,) = torch.autograd.grad(
        (plain_TV.gather(1, target_T[:, None])[:, 0] * weights_T).sum(), hidden_TH
    )
    (found,) = torch.autograd.grad((found_T * weights_T).sum(), hidden_TH)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_a_logprob_that_is_not_finite_names_its_exchange(value) -> None:
    row = row_of(turn(1, [5], [7]), turn(42, [6], [8, 9]))
    policy_logprobs_T = torch.tensor([-1.0, -1.0, value])
    with pytest.raises(NotFiniteError, match=str(UUID(int=42))):
        row_loss(row, policy_logprobs_T, StepSize(3, 2), LossSettings())


def test_loss_is_not_the_only_figure_that_shows_life() -> None:
    """B113: on-policy with advantages that cancel the loss is near 0; ratio, entropy and KL are reported besides."""
    row = row_of(turn(1, [5], [7], 1.0, 1.0, -1.0), turn(2, [5], [8], -1.0, 1.0, -1.0))
    loss, metrics = row_loss(
        row, torch.tensor([-1.0, -1.0]), StepSize(2, 2), LossSettings(), entropies_T=torch.ones(2)
    )
    assert loss.item() == 0.0
    assert metrics.summary()["entropy"] == 1.0
    assert metrics.summary()["approximate_kl"] == pytest.approx(0.0)
    assert exp(0) == metrics.summary()["ratio_max"]
