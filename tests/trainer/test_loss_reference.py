"""Loss and gradients against an independent float64 reference (tests/trainer/reference.py), for all settings."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, product
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import torch

from tests.trainer.reference import ByExchange, Reference, advantages_of, loss_of
from tests.trainer.tiny import random_samples
from trainer.grpo.advantages import Baseline, group_baselines
from trainer.grpo.loss_settings import LossKind
from trainer.grpo.packing import pack
from trainer.grpo.samples import Sample, Span
from trainer.policy_model import LoraShape, PolicyModel
from trainer.settings import TrainerSettings
from trainer.update import accumulate

KINDS: list[dict[str, Any]] = [
    {"loss": "cispo"},
    {"loss": "cispo", "cispo_cap": 1.1},
    {"loss": "ppo"},
    {"loss": "ppo", "clip_low": 0.05, "clip_high": 0.1},
    {"loss": "ppo", "importance_cap": 2.0},
    {"loss": "ppo", "importance_cap": 0.9},
]
IMPORTANCE, NORMALIZE, KL, STD = ("token", "sequence"), ("tokens", "sequences"), (0.0, 0.1), (False, True)
COMBINATIONS = [
    kind | {"importance": importance, "normalize": normalize, "kl": kl, "scale_by_std": std}
    for kind, importance, normalize, kl, std in product(KINDS, IMPORTANCE, NORMALIZE, KL, STD)
]
LIKELIHOOD = [{"normalize": normalize, "kl": kl} for normalize, kl in product(NORMALIZE, KL)]
SPLITS = (1, 30, 10_000)  # tokens of a row: each sample alone, some together, all in one


@dataclass(frozen=True)
class Case:
    """Two groups of three two-turn trajectories, sampled by a policy near this one, and what the reference says of them."""

    model: PolicyModel
    reference: Reference
    samples: list[Sample]
    rewards: list[list[float]]  # by group
    new: ByExchange
    base: ByExchange

    @property
    def spans(self) -> list[Span]:
        return [span for sample in self.samples for span in sample.spans]

    def given(self, advantages: dict[UUID, float]) -> list[Sample]:
        return [
            replace(
                sample,
                spans=tuple(replace(s, advantage=advantages[s.exchange_id]) for s in sample.spans),
            )
            for sample in self.samples
        ]


@pytest.fixture(scope="module")
def case(tiny_path: Path) -> Case:
    model = PolicyModel.load(str(tiny_path), LoraShape(), seed=1, device=torch.device("cpu"))
    stir(model)
    reference = Reference(str(tiny_path), model.lora, scale=16.0 / 8)
    rng, samples = random.Random(5), random_samples(seed=5)
    rewards = [[rng.uniform(-1, 1) for _ in range(3)] for _ in range(2)]
    new = reference.logprobs(samples)
    samples = [sampled_nearby(sample, new, rng) for sample in samples]
    return Case(model, reference, samples, rewards, new, reference.logprobs(samples, is_adapted=False))


def sampled_nearby(sample: Sample, new: ByExchange, rng: random.Random) -> Sample:
    """Sampling logprobs around the policy's: a shift of the sequence, noise of each token, and here and there an engine that
    disagrees, beyond the trust mask.
    """
    spans = []
    for span in sample.spans:
        shift = rng.uniform(-0.5, 0.5)
        far = [rng.choice([0.0] * 9 + [5.0, -5.0]) for _ in range(span.start, span.stop)]
        noise = [shift + rng.gauss(0, 0.3) + each for each in far]
        logprobs = [float(p) + n for p, n in zip(new[span.exchange_id].detach(), noise, strict=True)]
        spans.append(replace(span, sampling_logprobs=tuple(logprobs)))
    return replace(sample, spans=tuple(spans))


def stir(model: PolicyModel) -> None:
    """lora_B is zero at first, which hides half the gradients: give both halves values."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.lora.values():
            parameter.normal_(0, 0.1)


def by_exchange(case: Case, advantages: Callable[[list[float]], Sequence[float]]) -> dict[UUID, float]:
    """tiny.random_samples numbers exchanges 100 * group + 10 * member + turn."""
    found = [advantages(rewards) for rewards in case.rewards]
    return {s.exchange_id: found[s.exchange_id.int // 100][s.exchange_id.int % 100 // 10] for s in case.spans}


def as_trained(case: Case, settings: TrainerSettings) -> list[Sample]:
    def advantages(rewards: list[float]) -> list[float]:
        compared = group_baselines(rewards, Baseline.MEAN, is_scaled_by_std=settings.scale_by_std)
        return [each.advantage(reward) for each, reward in zip(compared, rewards, strict=True)]

    return case.given(by_exchange(case, advantages))


def gradients(model: PolicyModel) -> dict[str, torch.Tensor]:
    found = {
        name: parameter.grad.clone() for name, parameter in model.lora.items() if parameter.grad is not None
    }
    for parameter in model.lora.values():
        parameter.grad = None
    return found


def assert_close(
    actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], tolerance: float
) -> None:
    """Each parameter's gradient, relative to its own size."""
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert float((actual[name] - value).norm()) <= tolerance * float(value.norm()), name


def assert_agrees(case: Case, settings: TrainerSettings, row_tokens: int) -> None:
    advantages = by_exchange(case, lambda rewards: advantages_of(rewards, settings))
    expected = loss_of(case.spans, advantages, case.new, case.base, settings)
    samples, rng = as_trained(case, settings), random.Random(row_tokens)
    rows = pack(
        rng.sample(samples, len(samples)), row_tokens, min_saved=1
    )  # on stems wherever there can be one
    metrics = accumulate(case.model, rng.sample(rows, len(rows)), settings)
    found = gradients(case.model)
    assert metrics.loss == pytest.approx(expected.item(), rel=1e-4, abs=1e-6)
    assert metrics.num_tokens == sum(sample.num_sampled for sample in samples)
    assert_close(found, case.reference.gradients(expected), 1e-4)


def each_packed_otherwise(combinations: list[dict[str, Any]]) -> Any:
    """All combinations, and all ways of packing among them; that packing changes nothing has a test of its own."""
    packed = zip(combinations, cycle(SPLITS), strict=False)
    ids = ["-".join(map(str, changes.values())) for changes in combinations]
    return pytest.mark.parametrize(("changes", "row_tokens"), list(packed), ids=ids)


@each_packed_otherwise(COMBINATIONS)
def test_loss_and_every_gradient_agree_with_the_float64_reference(
    case, settings_of, changes, row_tokens
) -> None:
    assert_agrees(case, settings_of(**changes), row_tokens)


@each_packed_otherwise(LIKELIHOOD)
def test_so_does_the_likelihood_of_demonstrations(case, settings_of, changes, row_tokens) -> None:
    assert_agrees(case, settings_of(**changes).model_copy(update={"loss": LossKind.NLL}), row_tokens)


@pytest.mark.parametrize("changes", KINDS, ids=str)
@pytest.mark.parametrize("importance", IMPORTANCE)
@pytest.mark.parametrize("normalize", NORMALIZE)
def test_neither_order_nor_the_split_into_rows_changes_a_figure(
    case, settings_of, changes, importance, normalize
) -> None:
    settings = settings_of(importance=importance, normalize=normalize, kl=0.1, **changes)
    samples = as_trained(case, settings)
    whole = accumulate(case.model, pack(samples, 10_000), settings)
    expected = gradients(case.model)
    for row_tokens, min_saved in ((1, 1), (17, 1), (17, 10_000)):
        split = accumulate(case.model, reversed(pack(samples[::-1], row_tokens, min_saved)), settings)
        assert split.summary() == pytest.approx(whole.summary(), rel=1e-4, abs=1e-5)
        assert_close(gradients(case.model), expected, 1e-5)


@pytest.mark.parametrize("changes", KINDS, ids=str)
@pytest.mark.parametrize("importance", IMPORTANCE)
def test_the_settings_of_this_file_clip_and_mask_something(case, settings_of, changes, importance) -> None:
    """Otherwise the comparisons above would show nothing."""
    settings = settings_of(importance=importance, **changes)
    found = accumulate(case.model, pack(as_trained(case, settings), 10_000), settings)
    gradients(case.model)
    assert 0 < found.num_masked < found.num_tokens / 4
    is_loose = settings.cispo_cap == 3.0 if settings.loss == "cispo" else settings.importance_cap == 2.0
    assert is_loose or 0 < found.num_clipped < found.num_tokens


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
