"""Loss and gradients against an independent float64 reference (tests/trainer/reference.py)."""

from pathlib import Path

import pytest
import torch

from tests.trainer.reference import Reference
from tests.trainer.tiny import random_samples
from trainer.grpo.packing import pack
from trainer.policy_model import PolicyModel
from trainer.update import accumulate

SETTINGS = [
    {},
    {"kl": 0.1},
    {"loss": "ppo"},
    {"loss": "ppo", "kl": 0.05, "clip_low": 0.4},
    {"cispo_cap": 1.2, "trust_log_ratio": 1.5},
]


def stir(model: PolicyModel) -> None:
    """lora_B is zero at first, which hides half the gradients: give both halves values."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.lora.values():
            parameter.normal_(0, 0.1)


def gradients(model: PolicyModel) -> dict[str, torch.Tensor]:
    found = {name: parameter.grad.clone() for name, parameter in model.lora.items()}
    for parameter in model.lora.values():
        parameter.grad = None
    return found


def assert_close(
    actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], tolerance: float
) -> None:
    largest = max(float(value.abs().max()) for value in expected.values())
    for name, value in expected.items():
        assert float((actual[name] - value).abs().max()) <= tolerance * largest, name


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
@pytest.mark.parametrize("row_tokens", [1, 30, 10_000])
def test_loss_and_every_gradient_agree_with_the_float64_reference(
    model: PolicyModel, tiny_path: Path, settings_of, changes, row_tokens
) -> None:
    stir(model)
    settings, samples = settings_of(**changes), random_samples(seed=5)
    reference = Reference(str(tiny_path), model.lora, scale=16.0 / 8)
    expected = reference.loss(samples, settings)
    expected.backward()
    metrics = accumulate(model, pack(samples, row_tokens), settings)
    assert metrics.loss == pytest.approx(expected.item(), rel=1e-4, abs=1e-6)
    assert metrics.num_tokens == sum(sample.num_sampled for sample in samples)
    assert_close(gradients(model), {k: v.grad for k, v in reference.lora.items()}, 1e-4)


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_neither_order_nor_the_split_into_rows_changes_loss_or_gradients(model, settings_of, changes) -> None:
    stir(model)
    settings, samples = settings_of(**changes), random_samples(seed=11, num_groups=3)
    whole = accumulate(model, pack(samples, 10_000), settings)
    expected = gradients(model)
    for row_tokens in (1, 17, 40):
        split = accumulate(model, reversed(pack(samples[::-1], row_tokens)), settings)
        assert split.loss == pytest.approx(whole.loss, rel=1e-5, abs=1e-7)
        assert split.num_clipped == whole.num_clipped
        assert split.num_masked == whole.num_masked
        assert_close(gradients(model), expected, 1e-5)


def test_the_settings_of_this_file_clip_and_mask_something(model, settings_of) -> None:
    """Otherwise the comparisons above would show nothing."""
    stir(model)
    rows = pack(random_samples(seed=5), 10_000)
    assert accumulate(model, rows, settings_of(**SETTINGS[2])).num_clipped > 0
    found = accumulate(model, rows, settings_of(**SETTINGS[4]))
    assert found.num_clipped > 0
    assert 0 < found.num_masked < found.num_tokens


def test_in_bfloat16_the_gradient_of_a_confident_token_survives_the_head() -> None:
    """W[target] - p W with p near 1 is a difference of nearly equal, already rounded vectors; (onehot - p) W is not."""
    from trainer.grpo.head import token_logprobs

    torch.manual_seed(1)
    weight_VH = torch.randn(50, 32).bfloat16()
    target_T = torch.arange(8)
    hidden_TH = (weight_VH[target_T] * 0.3).requires_grad_()  # each points at its own target
    token_logprobs(hidden_TH, weight_VH, target_T, torch.ones(8))[0].sum().backward()
    pull_TV = -torch.softmax((hidden_TH.detach() @ weight_VH.T).double(), dim=-1)
    pull_TV[range(8), target_T] += 1
    assert float(pull_TV[range(8), target_T].max()) < 0.25  # they are sure of their token
    expected_TH = pull_TV @ weight_VH.double()
    assert hidden_TH.grad is not None
    errors_T = (hidden_TH.grad.double() - expected_TH).norm(dim=1) / expected_TH.norm(dim=1)
    assert float(errors_T.max()) < 0.01
