"""Old optimizer states go, adapters stay, and nothing that a step may start from is ever touched."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import pytest
from sqlalchemy import text

from ledger.policies import Policy, move_live
from ledger.vocabulary import StepState
from tests.trainer.test_claim import expire
from tests.trainer.traffic import add_group, begin_policy, one, rows
from trainer import checkpoint, pruning
from trainer.adapter_names import highest_version_on_disk
from trainer.checkpoint import OPTIMIZER, PRUNED
from trainer.pruning import kept_versions, prune_checkpoints
from trainer.step import resume_or_claim, tick


def train(engine, trainer, number: int) -> None:
    for seed in range(number):
        add_group(engine, seed, [1.0, 0.0])
        assert tick(trainer).state is StepState.PUBLISHED


def kept(trainer) -> set[int]:
    return kept_versions(trainer.settings.checkpoints_root, "default")


def policy_of(engine, trainer) -> Policy:
    return begin_policy(engine, trainer.settings.base_model)


def test_the_newest_optimizer_states_are_kept_and_every_adapter(engine, make_trainer) -> None:
    trainer = make_trainer(keep_checkpoints=2)
    train(engine, trainer, 4)
    assert kept(trainer) == {3, 4}
    assert sorted(path.name for path in trainer.settings.adapters.iterdir()) == [
        f"default@{n}" for n in (1, 2, 3, 4)
    ]
    pruned = trainer.settings.checkpoints_root / "default@1" / PRUNED
    assert pruned.stat().st_size == 0
    assert checkpoint.read_saved(trainer.settings, "default", 1).state["version"] == 1


def test_the_live_version_keeps_its_state_however_old_it_is(engine, make_trainer) -> None:
    trainer = make_trainer(keep_checkpoints=3)
    train(engine, trainer, 3)
    policy = policy_of(engine, trainer)
    with engine.begin() as connection:
        move_live(connection, policy.id, 1)
    settings = trainer.settings.model_copy(update={"keep_checkpoints": 1})
    assert prune_checkpoints(engine, settings, policy) == ["default@2"]
    assert kept(trainer) == {1, 3}


def test_the_parent_of_an_unfinished_step_keeps_its_state(engine, make_trainer) -> None:
    """I9: two attempts of a step start from the same moments, whatever is pruned between them."""
    trainer = make_trainer(keep_checkpoints=3)
    train(engine, trainer, 2)
    policy = policy_of(engine, trainer)
    with engine.begin() as connection:
        move_live(connection, policy.id, 1)
    add_group(engine, 9, [1.0, 0.0])
    _, step = resume_or_claim(trainer)
    assert step.parent_version == 1
    with engine.begin() as connection:
        move_live(connection, policy.id, 2)  # somebody promotes meanwhile
    settings = trainer.settings.model_copy(update={"keep_checkpoints": 1})
    assert prune_checkpoints(engine, settings, policy) == []
    expire(engine)
    assert tick(make_trainer()).state is StepState.PUBLISHED
    assert (
        one(engine, "SELECT metrics->>'has_parent_moments' FROM training_steps WHERE version = 3") == "true"
    )


def test_a_step_from_a_version_whose_state_was_pruned_begins_with_new_moments_and_says_so(
    engine, make_trainer
) -> None:
    trainer = make_trainer(keep_checkpoints=1, warmup_steps=10)
    train(engine, trainer, 3)
    with engine.begin() as connection:
        move_live(connection, policy_of(engine, trainer).id, 1)
    add_group(engine, 9, [1.0, 0.0])
    step = tick(trainer)
    assert (step.state, step.version, step.parent_version) == (StepState.PUBLISHED, 4, 1)
    query = "SELECT metrics->>'has_parent_moments', metrics->>'learning_rate' FROM training_steps WHERE version = 4"
    assert rows(engine, query) == [("false", "0.0002")]  # the schedule went on: its second step
    assert kept(trainer) == {4}


def test_a_state_that_is_missing_and_was_not_pruned_is_an_error(engine, make_trainer) -> None:
    trainer = make_trainer()
    train(engine, trainer, 1)
    (trainer.settings.checkpoints_root / "default@1" / OPTIMIZER).unlink()
    with pytest.raises(checkpoint.CheckpointError, match="cannot be read"):
        checkpoint.read_parent(trainer.settings, "default", 1)


def test_no_step_begins_while_states_are_pruned(engine, make_trainer, monkeypatch) -> None:
    trainer = make_trainer(keep_checkpoints=1)
    train(engine, trainer, 1)
    seen: list[object] = []
    real = pruning.kept_versions

    def slowly(root: Path, line: str) -> set[int]:
        if not seen:
            seen.append("pruning")
            sleep(0.5)
            seen.append("pruned")
        return real(root, line)

    monkeypatch.setattr(pruning, "kept_versions", slowly)
    add_group(engine, 9, [1.0, 0.0])
    with ThreadPoolExecutor(1) as pool:
        pruning_now = pool.submit(prune_checkpoints, engine, trainer.settings, policy_of(engine, trainer))
        while not seen:
            sleep(0.01)
        _, step = resume_or_claim(trainer)
        assert seen == ["pruning", "pruned"]
        assert step is not None
        pruning_now.result()


def test_what_a_crash_left_between_rename_and_removal_counts_as_pruned(engine, make_trainer) -> None:
    trainer = make_trainer()
    train(engine, trainer, 2)
    directory = trainer.settings.checkpoints_root / "default@1"
    (directory / OPTIMIZER).rename(directory / PRUNED)
    assert checkpoint.read_parent(trainer.settings, "default", 1).moments is None
    assert kept(trainer) == {2}


def test_another_projects_policy_is_no_version_of_a_policy_named_as_the_project(tmp_path) -> None:
    """I7: `acme@x@7` is policy x of project acme: it neither takes a number of policy acme nor keeps a state of it."""
    for name in ("acme@3", "acme@x@7", "acme@new", "acmes@9"):
        (tmp_path / name).mkdir()
        (tmp_path / name / OPTIMIZER).touch()
    assert kept_versions(tmp_path, "acme") == {3}
    assert kept_versions(tmp_path, "acme@x") == {7}
    assert highest_version_on_disk(tmp_path, "acme") == 3


def test_a_disk_that_refuses_costs_nothing_but_space(engine, make_trainer, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("read-only")

    trainer = make_trainer(keep_checkpoints=1)
    monkeypatch.setattr(pruning, "_prune", refuse)
    train(engine, trainer, 2)
    assert kept(trainer) == {1, 2}
    with engine.begin() as connection:
        connection.execute(text("SELECT 1"))
