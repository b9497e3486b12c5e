"""kill -9 within a step of sft or dpo: the next tick finishes it, once, with the same bytes (I9)."""

import hashlib
import multiprocessing
import signal

import pytest

from ledger.rewards.posts import RewardPost
from ledger.vocabulary import StepKind, StepState
from tests.trainer.imitation.given import answered, ask, compare, demonstrate
from tests.trainer.imitation.killed import POINTS, run_until_killed
from tests.trainer.test_claim import expire
from tests.trainer.traffic import one, rows
from trainer.step import tick

FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["tests.trainer.imitation.killed"])
SETTINGS = {"sft_batch_tokens": 16, "row_tokens": 12, "step_groups": 50}  # no step of rewards comes between
KINDS = {StepKind.SFT: {"from": "demonstrations"}, StepKind.DPO: {"epochs": 2}}
TRIED = [
    (kind, point)
    for kind in KINDS
    for point in POINTS
    if (kind is StepKind.DPO) == point.endswith("of dpo") or "optimizer" not in point
]


def asked(engine, kind: StepKind) -> None:
    """The same words and tokens each time, whatever their ids."""
    for seed in (1, 2, 3):
        made = answered(engine, seed, 2)
        demonstrate(engine, made.call_id, "yes." * seed, choice=0)
        target = str(made.call_id)
        compare(engine, RewardPost(target, choice=0), RewardPost(target, choice=1))
    ask(engine, kind, **KINDS[kind])


def digest(trainer) -> str:
    path = trainer.settings.adapters / "default@1" / "adapter_model.safetensors"
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def undisturbed() -> dict[StepKind, str]:
    """The digest of the first run of each kind: all must have the same."""
    return {}


def check_finished_once(engine, trainer, kind: StepKind, undisturbed) -> None:
    assert rows(engine, "SELECT version, state, kind FROM training_steps") == [(1, "published", str(kind))]
    assert rows(engine, "SELECT state FROM step_requests") == [("done",)]
    assert one(engine, "SELECT live_version FROM policies") == 1
    assert digest(trainer) == undisturbed.setdefault(kind, digest(trainer))


@pytest.mark.parametrize("kind", KINDS)
def test_an_undisturbed_step_is_what_the_others_are_compared_with(
    engine, make_trainer, kind, undisturbed
) -> None:
    trainer = make_trainer(**SETTINGS)
    asked(engine, kind)
    assert tick(trainer).state is StepState.PUBLISHED
    check_finished_once(engine, trainer, kind, undisturbed)
    assert one(engine, "SELECT metrics -> 'num_optimizer_steps' FROM training_steps") > 2


@pytest.mark.parametrize(("kind", "point"), TRIED)
def test_i9_a_step_killed_anywhere_ends_in_the_same_bytes(
    engine, make_trainer, undisturbed, kind, point
) -> None:
    """I9, I6: made and published once. What is posted between two attempts changes nothing."""
    trainer = make_trainer(**SETTINGS)
    asked(engine, kind)
    process = FORKSERVER.Process(target=run_until_killed, args=(point, trainer.settings.model_dump()))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, process.exitcode
    assert one(engine, "SELECT live_version FROM policies") == 0
    if point == "between two optimizer steps":
        first = one(engine, "SELECT min(id::text) FROM exchanges")
        demonstrate(engine, first, "no.", choice=0)  # too late for this step
    expire(engine)
    assert tick(trainer).state is StepState.PUBLISHED
    assert tick(trainer) is None
    check_finished_once(engine, trainer, kind, undisturbed)
