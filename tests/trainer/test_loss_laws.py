"""Laws of the loss, for all settings: rows, order and masks change nothing that they should not. No model is needed."""

from dataclasses import replace
from math import log
from typing import Any
from uuid import UUID

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.trainer.tiny import random_samples, turn
from trainer.grpo.loss import NotFiniteError, row_loss
from trainer.grpo.loss_settings import Importance, LossKind, LossSettings, Normalization
from trainer.grpo.metrics import MAXIMA, LossMetrics
from trainer.grpo.packing import PackedRow, pack
from trainer.grpo.samples import Sample, merge_turns
from trainer.grpo.step_size import StepSize

Gradients = dict[UUID, list[float]]

any_settings = st.builds(
    LossSettings,
    kind=st.sampled_from(LossKind),
    importance=st.sampled_from(Importance),
    importance_cap=st.sampled_from([None, 0.8, 2.0]),
    normalization=st.sampled_from(Normalization),
    trust_log_ratio=st.sampled_from([0.5, 3.0]),
    kl_weight=st.sampled_from([0.0, 0.1]),
)


def computed(
    samples: list[Sample], rows: list[PackedRow], settings: LossSettings, *, offset: float = 0.0
) -> tuple[float, Gradients, LossMetrics]:
    """Loss, the gradient of each token's logprob and metrics, of a policy that is a function of exchange and place."""
    loss, gradients, metrics = 0.0, Gradients(), LossMetrics()
    size = StepSize.of(rows)
    assert size == StepSize(sum(s.num_sampled for s in samples), sum(len(s.spans) for s in samples))
    for row in rows:
        logprobs_T = (row.sampling_logprobs_T + offset + wobble(row)).requires_grad_()
        base_logprobs_T = row.sampling_logprobs_T - 0.3 if settings.kl_weight else None
        row_part, found = row_loss(row, logprobs_T, size, settings, base_logprobs_T=base_logprobs_T)
        row_part.backward()
        assert logprobs_T.grad is not None
        for owner, gradient in zip(row.owner_T.tolist(), logprobs_T.grad.tolist(), strict=True):
            gradients.setdefault(row.exchange_ids[owner], []).append(gradient)
        loss, metrics = loss + row_part.item(), metrics + found
    return loss, gradients, metrics


def wobble(row: PackedRow) -> Tensor:
    """Log-ratios from -1 to 1, the same for a token wherever its row puts it."""
    numbers_E = torch.tensor([id_.int % 97 for id_ in row.exchange_ids])
    return torch.sin(numbers_E[row.owner_T] * 1.7 + row.target_T * 0.9)


@given(st.integers(0, 10_000), st.sampled_from([1, 17, 40]), any_settings, st.randoms())
def test_neither_packing_nor_order_changes_loss_gradient_or_metrics(seed, row_tokens, settings, rng) -> None:
    samples = random_samples(seed)
    loss, gradients, metrics = computed(samples, pack(samples, 10_000), settings)
    rows = pack(rng.sample(samples, len(samples)), row_tokens)
    split, split_gradients, split_metrics = computed(samples, rng.sample(rows, len(rows)), settings)
    assert split == pytest.approx(loss, rel=1e-4, abs=1e-5)
    assert split_gradients == {id_: pytest.approx(each, rel=1e-4) for id_, each in gradients.items()}
    assert split_metrics.summary() == pytest.approx(metrics.summary(), rel=1e-4, abs=1e-5)


@given(st.integers(0, 10_000), any_settings)
def test_a_masked_token_gets_no_gradient_and_still_counts_in_the_denominator(seed, settings) -> None:
    """B123: the mask is a weight of 0. What the other tokens get is as if it were there: nothing is divided by less."""
    if settings.kind is LossKind.NLL:
        settings = replace(settings, kind=LossKind.CISPO)
    settings = replace(settings, importance=Importance.TOKEN)
    samples = random_samples(seed)
    rows = pack(samples, 10_000)
    _, open_gradients, _ = computed(samples, rows, replace(settings, trust_log_ratio=9.0))
    _, gradients, metrics = computed(samples, rows, replace(settings, trust_log_ratio=0.5))
    is_masked = [bool(each) for each in (wobble(rows[0]).abs() > 0.5)]
    pairs = [
        (masked, all_, kept)
        for masked, all_, kept in zip(
            is_masked, in_row_order(rows[0], open_gradients), in_row_order(rows[0], gradients), strict=True
        )
    ]
    assert metrics.num_masked == sum(is_masked)
    for masked, all_, kept in pairs:
        assert kept == (0.0 if masked else pytest.approx(all_, rel=1e-4))


def in_row_order(row: PackedRow, gradients: Gradients) -> list[float]:
    left = {id_: iter(each) for id_, each in gradients.items()}
    return [next(left[row.exchange_ids[owner]]) for owner in row.owner_T.tolist()]


@given(st.integers(0, 10_000), st.sampled_from(Normalization))
def test_on_policy_every_kind_at_every_level_is_the_plain_policy_gradient(seed, normalization) -> None:
    """Williams 1992: -advantage times the gradient of the logprob, whatever bounds the ratio (they touch nothing at 1)."""
    samples = random_samples(seed)
    (row,) = pack(samples, 10_000)
    size = StepSize.of([row])
    expected_T = -row.advantages_T * size.weights(row, normalization)
    for kind in (LossKind.CISPO, LossKind.PPO):
        for importance in Importance:
            for cap in (None, 1.5):
                logprobs_T = row.sampling_logprobs_T.clone().requires_grad_()
                settings = LossSettings(kind, importance, cap, normalization)
                loss, metrics = row_loss(row, logprobs_T, size, settings)
                loss.backward()
                torch.testing.assert_close(logprobs_T.grad, expected_T)
                assert metrics.num_clipped == metrics.num_masked == 0


@given(st.integers(0, 10_000), st.sampled_from(Importance), st.sampled_from([0.9, 2.0]))
def test_truncated_importance_has_the_gradient_of_cispo_with_the_same_cap(seed, importance, cap) -> None:
    """One optimizer step a batch: PPO's own ratio is 1."""
    samples = random_samples(seed)
    rows = pack(samples, 10_000)
    ppo = LossSettings(LossKind.PPO, importance, importance_cap=cap)
    cispo = LossSettings(LossKind.CISPO, importance, cispo_cap=cap)
    _, truncated, metrics = computed(samples, rows, ppo)
    _, capped, _ = computed(samples, rows, cispo)
    assert truncated == {id_: pytest.approx(each, rel=1e-5) for id_, each in capped.items()}
    assert metrics.num_clipped == computed(samples, rows, cispo)[2].num_clipped


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_by_sequences_each_exchange_counts_the_same_however_long(lengths) -> None:
    turns = [turn(n, [5], [7] * length, advantage=1.0) for n, length in enumerate(lengths)]
    samples = [sample for made in turns for sample in merge_turns([made])]
    rows = pack(samples, 10)
    for normalization in Normalization:
        settings = LossSettings(LossKind.NLL, normalization=normalization)
        _, gradients, _ = computed(samples, rows, settings)
        for number, length in enumerate(lengths):
            share = length / sum(lengths) if normalization is Normalization.TOKENS else 1 / len(lengths)
            assert -sum(gradients[UUID(int=number)]) == pytest.approx(share, rel=1e-5)


def test_a_sequences_ratio_is_the_geometric_mean_and_a_long_answer_is_not_masked_by_its_length() -> None:
    """B118: 0.012 a token over 100 tokens is a product of 3.3, beyond TRL's cap of 3, and a mean of 1.012."""
    (row,) = pack(merge_turns([turn(1, [5], [7] * 100, sampling_logprob=-1.0)]), 1_000)
    logprobs_T = torch.full((100,), -1.0 + 0.012)
    settings = LossSettings(importance=Importance.SEQUENCE)
    loss, metrics = row_loss(row, logprobs_T, StepSize(100, 1), settings)
    assert metrics.summary()["bounded_exchange_fraction"] == 0.0
    assert metrics.summary()["sequence_ratio_mean"] == pytest.approx(1.0121, rel=1e-3)
    assert loss.item() == pytest.approx(1.0121 * 0.988, rel=1e-3)


def test_gspo_by_hand() -> None:
    """Ratios (2, 1/2, 1/2) of one exchange: their geometric mean is 2 ** (-1/3) = 0.794, below the clip of 0.8 for A < 0."""
    (row,) = pack(merge_turns([turn(1, [5], [7, 8, 2], advantage=-1.0, sampling_logprob=-2.0)]), 100)
    logprobs_T = (torch.tensor([log(2), -log(2), -log(2)]) - 2.0).requires_grad_()
    size = StepSize(3, 1)
    ppo = LossSettings(LossKind.PPO, Importance.SEQUENCE, clip_low=0.2)
    loss, metrics = row_loss(row, logprobs_T, size, ppo)
    loss.backward()
    assert loss.item() == pytest.approx(0.8)
    assert torch.equal(logprobs_T.grad, torch.zeros(3))
    assert (metrics.num_clipped, metrics.num_clipped_spans, metrics.num_bounded_spans) == (3, 1, 1)
    loss, metrics = row_loss(row, logprobs_T, size, replace(ppo, clip_low=0.3))
    loss.backward()
    torch.testing.assert_close(
        logprobs_T.grad, torch.full((3,), 2 ** (-1 / 3) / 3)
    )  # s * -A / |y| of each token
    assert metrics.num_clipped == 0


def test_truncated_importance_by_hand() -> None:
    """B123's kind, three rows: ratios 4 and 1/2 with a cap of 2, advantages 1 and -1, and a token that is not trusted."""
    turns = [turn(1, [5], [7], 1.0), turn(2, [6], [8], -1.0), turn(3, [9], [4], 1.0)]
    (row,) = pack([sample for made in turns for sample in merge_turns([made])], 100)
    logprobs_T = (torch.tensor([log(4), -log(2), 5.0]) - 2.0).requires_grad_()
    settings = LossSettings(LossKind.PPO, importance_cap=2.0)
    loss, metrics = row_loss(row, logprobs_T, StepSize.of([row]), settings)
    loss.backward()
    assert loss.item() == pytest.approx((-2 + 0.5) / 3)
    torch.testing.assert_close(logprobs_T.grad, torch.tensor([-2.0, 0.5, 0.0]) / 3)
    assert (metrics.num_clipped, metrics.num_masked, metrics.num_bounded_spans) == (1, 1, 2)


@pytest.mark.parametrize(
    ("changed", "culprit"),
    [
        ({"policy": float("nan")}, "policy logprob nan"),
        ({"policy": float("-inf")}, "policy logprob -inf"),
        ({"sampling": float("nan")}, "sampling logprob nan"),
        ({"advantage": float("inf")}, "advantage inf"),
        ({"base": float("nan")}, "base logprob nan"),
        ({"base": 200.0}, "term of the loss inf"),  # k3's exp overflows
    ],
    ids=str,
)
def test_what_is_not_finite_names_its_exchange_and_itself(changed, culprit) -> None:
    values: dict[str, Any] = {"policy": -1.0, "sampling": -1.0, "advantage": 1.0, "base": -1.0} | changed
    turns = [turn(1, [5], [7]), turn(42, [6], [8], values["advantage"], 1.0, values["sampling"])]
    (row,) = pack([sample for made in turns for sample in merge_turns([made])], 100)
    policy_logprobs_T = torch.tensor([-1.0, values["policy"]], requires_grad=True)
    base_logprobs_T = torch.tensor([-1.0, values["base"]])
    with pytest.raises(NotFiniteError, match=rf"{UUID(int=42)}.*{culprit}"):
        row_loss(
            row,
            policy_logprobs_T,
            StepSize(2, 2),
            LossSettings(kl_weight=0.1),
            base_logprobs_T=base_logprobs_T,
        )


def test_metrics_add_up_and_are_finite_however_far_off_a_token_is() -> None:
    (row,) = pack(merge_turns([turn(1, [5], [7, 8], sampling_logprob=-900.0)]), 100)
    _, near = row_loss(row, torch.tensor([-900.0, -900.0]), StepSize(4, 2), LossSettings())
    _, far = row_loss(row, torch.tensor([-1.0, -900.0]), StepSize(4, 2), LossSettings())
    both = near + far
    assert all(abs(value) < float("inf") for value in both.summary().values())
    assert both.ratio_max == far.ratio_max > 1e8
    assert (both.num_tokens, both.num_spans, both.num_high, both.num_masked) == (4, 2, 1, 1)
    assert both.summary()["ratio_min"] == 1.0
    assert set(MAXIMA) < set(LossMetrics.__slots__)
    assert near + LossMetrics() == near


def test_a_forced_token_of_a_reshaped_answer_was_no_choice_and_has_no_gradient() -> None:
    """A grammar left one token (sampling logprob 0): drawn with certainty, whatever the policy thinks of it now."""
    sampling_logprobs = [0.0, -0.7, 0.0]
    made = replace(turn(1, [5], [7, 8, 2]), sampling_logprobs=sampling_logprobs)
    (row,) = pack(merge_turns([replace(made, is_reshaped=True)]), 100)
    logprobs_T = torch.tensor([-9.0, -0.7, -0.2], requires_grad=True)
    for importance in Importance:
        settings = LossSettings(importance=importance, trust_log_ratio=3.0)
        loss, metrics = row_loss(row, logprobs_T, StepSize(3, 1), settings)
        (gradient,) = torch.autograd.grad(loss, logprobs_T)
        torch.testing.assert_close(gradient, torch.tensor([0.0, -1.0, 0.0]) / 3)
        assert (metrics.num_masked, metrics.ratio_max) == (0, 1.0)


def test_a_sure_token_of_an_ordinary_answer_and_a_demonstrated_one_are_learned_from() -> None:
    made = replace(turn(1, [5], [7]), sampling_logprobs=[0.0])
    for is_reshaped, kind in ((False, LossKind.CISPO), (True, LossKind.NLL)):
        (row,) = pack(merge_turns([replace(made, is_reshaped=is_reshaped)]), 100)
        logprobs_T = torch.tensor([-0.1], requires_grad=True)
        row_loss(row, logprobs_T, StepSize(1, 1), LossSettings(kind))[0].backward()
        assert logprobs_T.grad is not None
        assert float(logprobs_T.grad) < -0.8


@pytest.mark.parametrize("importance", Importance)
@pytest.mark.parametrize("kind", [LossKind.CISPO, LossKind.PPO])
def test_a_row_of_which_nothing_is_trusted_has_a_gradient_of_zero(kind, importance) -> None:
    (row,) = pack(merge_turns([turn(1, [5], [7, 8], sampling_logprob=-90.0)]), 100)
    logprobs_T = torch.tensor([-1.0, -2.0], requires_grad=True)
    settings = LossSettings(kind, importance, kl_weight=0.1)
    base_logprobs_T = torch.tensor([-1.0, -1.0])
    loss, metrics = row_loss(row, logprobs_T, StepSize(2, 1), settings, base_logprobs_T=base_logprobs_T)
    loss.backward()
    assert loss.item() == 0.0
    assert torch.equal(logprobs_T.grad, torch.zeros(2))
    assert metrics.num_masked == 2
    assert "base_kl" not in metrics.summary()  # it was computed of no token
