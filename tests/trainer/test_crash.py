"""kill -9 of the worker at every point of a step: the next tick finishes it, once, with the same bytes (I9)."""

import hashlib
import multiprocessing
import signal

import pytest

from ledger.vocabulary import StepState
from tests.trainer.crash_worker import POINTS, run_until_killed
from tests.trainer.test_claim import expire
from tests.trainer.traffic import add_group, one, rows
from trainer.step import tick

FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["tests.trainer.crash_worker"])
REWARDS = [[1.0, 0.0, 0.5], [0.0, 1.0]]


def kill_at(point: str, trainer) -> None:
    process = FORKSERVER.Process(target=run_until_killed, args=(point, trainer.settings.model_dump()))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, process.exitcode


def digest(trainer) -> str:
    path = trainer.settings.adapters / "default@1" / "adapter_model.safetensors"
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, str]:
    """The digest of the first run of this module: all must have the same."""
    return {}


def check_finished_once(engine, trainer) -> None:
    assert rows(engine, "SELECT version, state FROM training_steps") == [(1, "published")]
    assert rows(engine, "SELECT state, count(*) FROM groups GROUP BY 1") == [("trained", 2)]
    assert rows(engine, "SELECT version, state FROM policy_versions ORDER BY 1") == [
        (0, "base"),
        (1, "published"),
    ]
    assert one(engine, "SELECT live_version FROM policies") == 1
    assert one(engine, "SELECT count(*) FROM step_samples WHERE is_used") == 5
    assert rows(engine, "SELECT mean, num_samples FROM route_baselines") == [(0.5, 5)]
    assert one(engine, "SELECT adapter_sha256 FROM policy_versions WHERE version = 1") == digest(trainer)
    assert [path.name for path in trainer.settings.adapters.iterdir()] == ["default@1"]
    assert [path.name for path in trainer.settings.checkpoints_root.iterdir()] == ["default@1"]


def test_an_undisturbed_step_is_what_the_others_are_compared_with(engine, make_trainer, undisturbed) -> None:
    trainer = make_trainer(step_groups=2, row_tokens=20)
    for seed, rewards in enumerate(REWARDS):
        add_group(engine, seed, rewards)
    assert tick(trainer).state is StepState.PUBLISHED
    check_finished_once(engine, trainer)
    assert digest(trainer) == undisturbed.setdefault("digest", digest(trainer))


@pytest.mark.parametrize("point", POINTS)
def test_i9_a_step_killed_anywhere_ends_in_the_same_bytes(engine, make_trainer, undisturbed, point) -> None:
    """I9: same seed, same machine, kill -9 anywhere: the same adapter, made and published once. I6: trained once."""
    trainer = make_trainer(step_groups=2, row_tokens=20)
    for seed, rewards in enumerate(REWARDS):
        add_group(engine, seed, rewards)
    kill_at(point, trainer)
    if point != "published":
        assert one(engine, "SELECT live_version FROM policies") == 0
        expire(engine)
        assert tick(trainer).state is StepState.PUBLISHED
    assert tick(trainer) is None
    check_finished_once(engine, trainer)
    assert digest(trainer) == undisturbed.setdefault("digest", digest(trainer))


def test_i9_a_reward_that_changes_between_two_attempts_changes_nothing(
    engine, make_trainer, undisturbed
) -> None:
    """I9: the inputs are frozen when the samples are built."""
    from ledger.rewards.posting import post_reward
    from ledger.rewards.posts import RewardPost

    trainer = make_trainer(step_groups=2, row_tokens=20)
    exchanges = [add_group(engine, seed, rewards) for seed, rewards in enumerate(REWARDS)]
    kill_at("built, nothing updated", trainer)
    with engine.begin() as connection:
        post_reward(connection, "default", RewardPost(str(exchanges[0][0]), value=-1.0, choice=0))
    expire(engine)
    tick(trainer)
    assert digest(trainer) == undisturbed.setdefault("digest", digest(trainer))
