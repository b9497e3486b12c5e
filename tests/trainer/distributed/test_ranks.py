"""Two real processes under torchrun: the same step as one process, whatever dies."""

import os
import random
import signal
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import Any
from uuid import UUID

import psutil
import pytest
import torch

from ledger.vocabulary import StepKind
from tests.trainer.distributed.together import a_step, learn_together, nothing
from tests.trainer.tiny import random_samples, turn
from trainer.courses import COURSES
from trainer.distributed.ranks import Ranks
from trainer.distributed.ranks_cache import RanksCache
from trainer.errors import BatchError, LeaseLostError, RankError, SurroundingsError
from trainer.grpo.samples import merge_turns
from trainer.learned import Learned, learn
from trainer.material import Material, Pair
from trainer.model_cache import ModelCache
from trainer.parent import Parent
from trainer.settings import TrainerSettings

SEVERAL = {"processes": 2, "threads": 2, "device": "cpu"}
LEARNING = {"row_tokens": 40, "trust_log_ratio": 50.0, "kl": 0.1}


@pytest.fixture
def ranks_of(settings_of) -> Iterator[Callable[..., tuple[Ranks, TrainerSettings]]]:
    made: list[Ranks] = []

    def make(**changes: Any) -> tuple[Ranks, TrainerSettings]:
        settings = settings_of(**{**SEVERAL, **LEARNING, **changes})
        made.append(Ranks(settings))
        return made[-1], settings

    yield make
    for ranks in made:
        ranks.end()


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def parent_of(learned: Learned | None) -> Parent:
    if learned is None:
        return Parent()
    copies = [
        {name: tensor.clone() for name, tensor in each.items()} for each in (learned.adapter, learned.moments)
    ]
    return Parent(*copies, learned.optimizer_step)


def pids_of(ranks: Ranks) -> set[int]:
    assert ranks._torchrun is not None
    children = psutil.Process(ranks._torchrun.pid).children(recursive=True)
    return {child.pid for child in children if "trainer.distributed.rank" in child.cmdline()}


def await_true(question: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = monotonic() + seconds
    while not question():
        assert monotonic() < deadline
        sleep(0.05)


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(("shard", "checkpointing"), [("none", "off"), ("fsdp", "off"), ("fsdp", "on")])
def test_two_processes_make_the_adapter_that_one_makes_step_after_step(
    ranks_of, settings_of, one_thread, shard, checkpointing
) -> None:
    """Every bit of it, on one thread each. With fsdp the ninth row makes one rank pass idly. The ranks are started once."""
    ranks, settings = ranks_of(shard=shard, gradient_checkpointing=checkpointing)
    alone = ModelCache().get(settings_of(**LEARNING))
    several = one = None
    pids = set()
    for number in range(2):
        samples = random_samples(number, 5, 4)
        several = learn_together(ranks, parent_of(several), samples, settings)
        pids |= pids_of(ranks)
        one = learn(alone, parent_of(one), samples, settings_of(**LEARNING))
        assert one.metrics["num_rows"] == (9, 6)[number]
        for name, tensor in one.adapter.items():
            assert torch.equal(several.adapter[name], tensor), name
        assert all(torch.equal(several.moments[name], tensor) for name, tensor in one.moments.items())
        assert (several.config, several.probe) == (one.config, one.probe)
        assert several.metrics["loss"] == pytest.approx(one.metrics["loss"], rel=1e-9)
        assert several.metrics["num_trained_tokens"] == one.metrics["num_trained_tokens"]
        assert several.metrics["num_processes"] == 2
    assert len(pids) == 2


def test_what_is_not_finite_is_named_by_whoever_has_it_and_the_next_step_starts_anew(ranks_of) -> None:
    ranks, settings = ranks_of()
    bad = merge_turns([turn(4242, [5], [7], sampling_logprob=float("nan"))])
    with pytest.raises(BatchError, match=r"exchange 00000000-0000-0000-0000-000000001092 gives"):
        learn_together(ranks, Parent(), [*random_samples(1, 5, 4), *bad], settings)
    assert learn_together(ranks, Parent(), random_samples(1), settings).optimizer_step == 1


def test_a_rank_that_is_killed_ends_the_attempt_with_its_log_and_the_next_one_works(ranks_of) -> None:
    ranks, settings = ranks_of()
    learn_together(ranks, Parent(), random_samples(1), settings)
    pids = pids_of(ranks)
    os.kill(max(pids), signal.SIGKILL)
    with pytest.raises(RankError, match=r"(?s)a process of the trainer ended.*log"):
        ranks._await_answer(ranks._room, nothing)
    ranks.end()
    assert all(map(is_gone, pids))
    assert learn_together(ranks, Parent(), random_samples(1), settings).optimizer_step == 1


def test_silence_ends_the_attempt(ranks_of) -> None:
    """They are still loading: nobody has finished anything for a tenth of a second."""
    ranks, settings = ranks_of(stall_seconds=0.1)
    with pytest.raises(RankError, match="SLIPSTREAM_TRAINER_STALL_SECONDS"):
        learn_together(ranks, Parent(), random_samples(1), settings)
    assert ranks._torchrun is None


def test_a_lost_lease_ends_the_ranks_and_their_room(ranks_of) -> None:
    ranks, settings = ranks_of()
    found = []

    def lose() -> None:
        pids = pids_of(ranks)
        if len(pids) == 2:
            found.append((pids, ranks._room.path))
            raise LeaseLostError

    with pytest.raises(LeaseLostError):
        learn_together(ranks, Parent(), random_samples(1), settings, lose)
    [(pids, room)] = found
    await_true(lambda: all(map(is_gone, pids)))
    assert not room.exists()


def test_a_missing_base_model_says_which_setting_to_check(ranks_of, tmp_path) -> None:
    ranks, settings = ranks_of(base_model=str(tmp_path / "nowhere"))
    with pytest.raises(SurroundingsError, match="SLIPSTREAM_BASE_MODEL"):
        learn_together(ranks, Parent(), random_samples(1), settings)


def test_rows_on_stems_are_computed_together_and_come_to_the_same(ranks_of, settings_of, one_thread) -> None:
    """Three groups whose prompts are longer than what is worth a stem, in rows that hold two or three answers."""
    rng = random.Random(5)
    samples = [
        sample
        for group in range(3)
        for prompt in [[rng.randrange(64) for _ in range(70)]]
        for member in range(5)
        for sample in merge_turns(
            [turn(10 * group + member, prompt, [rng.randrange(64) for _ in range(20)], rng.uniform(-1, 1))]
        )
    ]
    ranks, settings = ranks_of(row_tokens=64)
    alone = settings_of(**{**LEARNING, "row_tokens": 64})
    one = learn(ModelCache().get(alone), Parent(), samples, alone)
    several = learn_together(ranks, Parent(), samples, settings)
    assert one.metrics["num_packed_tokens"] < 3 * 70 + 15 * 20 + 15  # each prompt once
    for name, tensor in one.adapter.items():
        assert torch.allclose(several.adapter[name], tensor, rtol=0, atol=1e-5), name


def test_ranks_change_the_model_when_a_job_is_about_another(ranks_of, settings_of, one_thread) -> None:
    ranks, settings = ranks_of()
    other = settings.model_copy(update={"lora_rank": 16, "seed": 5})
    samples = random_samples(1)
    learn_together(ranks, Parent(), samples, settings)
    pids = pids_of(ranks)
    learned = learn_together(ranks, Parent(), samples, other)
    alone = settings_of(**LEARNING, lora_rank=16, seed=5)
    expected = learn(ModelCache().get(alone), Parent(), samples, alone)
    assert pids_of(ranks) == pids
    assert learned.config["r"] == 16
    assert all(torch.equal(learned.adapter[name], tensor) for name, tensor in expected.adapter.items())


def test_one_process_needs_no_ranks_and_several_are_kept(settings_of) -> None:
    cache = RanksCache()
    ranks = cache.get(settings_of(**SEVERAL))
    assert isinstance(ranks, Ranks)
    assert cache.get(settings_of(**SEVERAL)) is ranks
    assert cache.get(settings_of()) is None


@pytest.mark.parametrize("kind", [StepKind.SFT, StepKind.DPO])
def test_steps_of_other_kinds_share_their_rows_too(ranks_of, settings_of, one_thread, kind) -> None:
    """Several optimizer steps: each batch is dealt, summed and applied by all."""
    samples = random_samples(1, 4, 1)
    sides = tuple((sample,) for sample in samples)
    pairs = (Pair(UUID(int=1), 0, 1), Pair(UUID(int=2), 2, 3))
    material = Material(tuple(samples), sides, pairs) if kind is StepKind.DPO else Material(tuple(samples))
    wish: dict[str, Any] = {"from": "best"} if kind is StepKind.SFT else {}
    step = a_step(kind, {str(kind): wish})
    ranks, settings = ranks_of(sft_batch_tokens=40)
    alone = settings_of(**LEARNING, sft_batch_tokens=40)
    several = ranks.learn(Parent(), material, settings, step, nothing)
    one = COURSES[kind].learn(ModelCache().get(alone), Parent(), material, alone, step, nothing)
    assert one.metrics["num_optimizer_steps"] > 1
    for name, tensor in one.adapter.items():
        assert torch.equal(several.adapter[name], tensor), name
