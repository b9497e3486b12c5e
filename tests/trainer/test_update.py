"""One optimizer step: what moves the weights, what must not, and what stops before them."""

from typing import Any
from uuid import UUID

import pytest
import torch

from tests.trainer.tiny import random_samples, turn
from trainer.errors import BatchError, CheckpointError, SurroundingsError
from trainer.grpo.advantages import Baseline, group_baselines
from trainer.grpo.samples import merge_turns
from trainer.policy_model import LoraShape, PolicyModel
from trainer.update import update


def bytes_of(model: PolicyModel) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in model.adapter_state().items()}


def learn(model: PolicyModel, settings, samples, optimizer_step: int = 1) -> dict[str, Any]:
    return update(model, samples, settings, optimizer_step=optimizer_step)


def test_an_update_raises_the_likelihood_of_what_was_better(model, settings_of) -> None:
    """B113: the loss may be near zero while it learns; the gradient's norm is what shows it."""
    good, bad = merge_turns([turn(1, [5, 6], [7], 1.0)]), merge_turns([turn(2, [5, 6], [8], -1.0)])
    model.reset(None, None)
    before = model.next_token_logprobs([5, 6])
    metrics = learn(model, settings_of(trust_log_ratio=50.0), good + bad)
    after = model.next_token_logprobs([5, 6])
    assert after[7] - before[7] > after[8] - before[8]
    assert metrics["grad_norm"] > 0
    assert metrics["num_trained_tokens"] == 2


@pytest.mark.parametrize("changes", [{}, {"weight_decay": 0.5}, {"weight_decay": 0.5, "kl": 0.5}], ids=str)
@pytest.mark.parametrize("num_steps_before", [0, 1])
def test_equal_rewards_leave_the_weights_bit_identical(model, settings_of, changes, num_steps_before) -> None:
    """B110: neither weight decay, nor the momentum of steps before, nor the pull to the base moves them."""
    settings = settings_of(**changes)
    model.reset(None, None)
    for number in range(num_steps_before):
        learn(model, settings, random_samples(number))
        model.reset(
            {name: value.clone() for name, value in model.adapter_state().items()},
            {name: value.clone() for name, value in model.optimizer_state().items()},
        )
    before = bytes_of(model)
    advantages = [each.advantage(0.7) for each in group_baselines([0.7] * 4, Baseline.MEAN)]
    turns = [turn(n, [5, 6], [7 + n], advantage=advantage) for n, advantage in enumerate(advantages)]
    metrics = learn(model, settings, [sample for made in turns for sample in merge_turns([made])])
    assert metrics["grad_norm"] == 0.0
    assert bytes_of(model) == before
    if num_steps_before:
        assert any(moment.abs().max() > 0 for moment in model.optimizer_state().values())


def test_a_step_after_one_that_rested_is_a_first_step(model, settings_of) -> None:
    settings, samples = settings_of(), random_samples(1)
    model.reset(None, None)
    learn(model, settings, samples)
    expected = bytes_of(model)
    model.reset(None, None)
    learn(model, settings, merge_turns([turn(1, [5, 6], [7], advantage=0.0)]))
    model.reset(model.adapter_state(), model.optimizer_state())
    learn(model, settings, samples)
    assert bytes_of(model) == expected


def test_the_same_parent_and_samples_give_the_same_bytes_whatever_came_between(model, settings_of) -> None:
    """I9: reset puts back exactly the parent."""
    settings, samples = settings_of(), random_samples(1)
    model.reset(None, None)
    learn(model, settings, samples)
    first, moments = bytes_of(model), model.optimizer_state()
    model.reset(model.adapter_state(), moments)
    learn(model, settings, random_samples(2), 2)
    second = bytes_of(model)
    model.reset(None, None)
    learn(model, settings, random_samples(3))
    model.reset(None, None)
    learn(model, settings, samples)
    assert bytes_of(model) == first
    model.reset(model.adapter_state(), model.optimizer_state())
    learn(model, settings, random_samples(2), 2)
    assert bytes_of(model) == second != first


def test_a_gradient_that_is_not_finite_stops_before_the_optimizer_and_is_named(model, settings_of) -> None:
    model.reset(None, None)
    name = next(name for name in model.lora if "lora_B" in name)
    handle = model.lora[name].register_hook(lambda gradient: gradient * float("nan"))
    before = bytes_of(model)
    with pytest.raises(BatchError, match=name):
        learn(model, settings_of(), random_samples(1))
    handle.remove()
    assert bytes_of(model) == before


def test_a_logprob_that_is_not_finite_stops_before_the_optimizer(model, settings_of) -> None:
    model.reset(None, None)
    before = bytes_of(model)
    samples = merge_turns([turn(9, [5], [7], sampling_logprob=float("nan"))])
    with pytest.raises(BatchError, match="not finite"):
        learn(model, settings_of(), samples)
    assert bytes_of(model) == before


def test_the_base_never_changes_and_gets_no_gradient(model, settings_of) -> None:
    model.reset(None, None)
    frozen = {n: p.detach().clone() for n, p in model.peft.named_parameters() if not p.requires_grad}
    learn(model, settings_of(), random_samples(1))
    for name, parameter in model.peft.named_parameters():
        if not parameter.requires_grad:
            assert parameter.grad is None
            assert torch.equal(parameter, frozen[name]), name


def test_with_the_adapter_off_the_base_answers(model, settings_of) -> None:
    from trainer.grpo.packing import pack

    (row,) = pack(random_samples(1), 10_000)
    model.reset(None, None)
    base = model.base_logprobs(row)
    learn(model, settings_of(), random_samples(1))
    assert torch.equal(model.base_logprobs(row), base)
    assert not torch.equal(model.logprobs(row)[0].detach(), base)


def test_warm_up_scales_the_first_steps(model, settings_of) -> None:
    model.reset(None, None)
    settings = settings_of(warmup_steps=4, learning_rate=1e-3)
    assert learn(model, settings, random_samples(1), 1)["learning_rate"] == pytest.approx(2.5e-4)
    assert learn(model, settings, random_samples(1), 9)["learning_rate"] == pytest.approx(1e-3)


def test_a_parent_of_another_rank_is_refused_with_the_remedy(model, tiny_path) -> None:
    """B106: a rank that differs between configuration and tensors must not load."""
    other = PolicyModel.load(str(tiny_path), LoraShape(rank=16), seed=1, device=torch.device("cpu"))
    with pytest.raises(CheckpointError, match="SLIPSTREAM_LORA_RANK"):
        model.reset(other.adapter_state(), None)


def test_a_missing_base_model_says_which_setting_to_check(tmp_path) -> None:
    with pytest.raises(SurroundingsError, match="SLIPSTREAM_BASE_MODEL"):
        PolicyModel.load(str(tmp_path / "nowhere"), LoraShape(), seed=1, device=torch.device("cpu"))


def test_a_parents_moments_go_where_its_parameters_are(tiny_path) -> None:
    """A checkpoint is read into the CPU's memory; AdamW on a GPU needs it there (`step` stays on the CPU)."""
    from transformers import AutoModelForCausalLM

    model = PolicyModel.load(str(tiny_path), LoraShape(), seed=1, device=torch.device("cpu"))
    model.reset(None, None)
    learn_nothing(model)
    moments = {name: moment.clone() for name, moment in model.optimizer_state().items()}
    base = AutoModelForCausalLM.from_pretrained(tiny_path).to("meta")
    elsewhere = PolicyModel(base, LoraShape(), seed=1, device=torch.device("meta"))
    elsewhere.reset(None, moments)
    elsewhere.begin(1e-3, (0.9, 0.999), 0.0)
    assert elsewhere.optimizer is not None
    for state in elsewhere.optimizer.state.values():
        assert {name: value.device.type for name, value in state.items()} == {
            "step": "cpu",
            "exp_avg": "meta",
            "exp_avg_sq": "meta",
        }


def learn_nothing(model: PolicyModel) -> None:
    model.begin(1e-3, (0.9, 0.999), 0.0)
    for parameter in model.lora.values():
        parameter.grad = torch.zeros_like(parameter)
    model.apply(1.0)


def test_a_token_that_the_model_does_not_have_stops_before_it_and_names_its_exchange(
    model, settings_of
) -> None:
    """On a GPU an index out of range would end the process, and every step after it."""
    good, bad = merge_turns([turn(1, [5, 6], [7])]), merge_turns([turn(2, [5, 100], [8]), turn(3, [1], [2])])
    model.reset(None, None)
    before = bytes_of(model)
    with pytest.raises(BatchError, match=f"exchange {UUID(int=2)} holds token 100.*only 64"):
        learn(model, settings_of(), good + bad)
    assert bytes_of(model) == before
