"""Another rank or alpha begins a new line: from the base, with a fresh optimizer, under the next number."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from safetensors.torch import save as save_safetensors
from sqlalchemy import Engine, text
from structlog.testing import capture_logs

from ledger.policies import move_live, read_policies
from ledger.vocabulary import StepState
from tests.trainer.fake_replica import FakeReplica
from tests.trainer.traffic import add_group, one, rows
from trainer.build import read_samples
from trainer.claim import Step
from trainer.learned import learn as learn_once
from trainer.learners import Learner
from trainer.model_cache import ModelCache
from trainer.parent import Parent
from trainer.servable import AGAIN_SECONDS, ServableShapes
from trainer.step import Trainer, tick
from trainer.worker import tell

NOBODYS = Step(UUID(int=0), UUID(int=0), 2, 0, StepState.BUILT, 1, 1, 0, {}, {})
Make = Callable[..., Trainer]


def learn(engine: Engine, trainer: Trainer, seed: int, version: int) -> Any:
    """One scored call that `version` answered, and the step that follows."""
    add_group(engine, seed, [1.0, 0.0], version=version)
    return tick(trainer)


def state_of(trainer: Trainer, version: int) -> dict[str, Any]:
    path = trainer.settings.checkpoints_root / f"default@{version}" / "state.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("change", [{"lora_rank": 16}, {"lora_alpha": 32.0}])
def test_another_shape_begins_at_the_base_under_the_next_number_and_says_so(
    engine: Engine, make_trainer: Make, change: dict[str, Any]
) -> None:
    for version in range(2):
        learn(engine, make_trainer(), version, version)
    trainer = make_trainer(**change)
    with capture_logs() as logs:
        step = learn(engine, trainer, 7, 2)
    assert (step.state, step.version, step.parent_version) == (StepState.PUBLISHED, 3, 0)
    assert state_of(trainer, 3)["optimizer_step"] == 1
    shape = {"rank": 8, "alpha": 16.0} | {key.removeprefix("lora_"): value for key, value in change.items()}
    told = one(engine, "SELECT metrics -> 'new_line' FROM training_steps WHERE version = 3")
    assert told == {"after_version": 2, "old_rank": 8, "old_alpha": 16.0, **shape}
    assert [log["version"] for log in logs if log["event"] == "new_line_begun"] == [3]
    assert rows(engine, "SELECT version, parent_version, lora_rank, lora_alpha FROM v1.versions ORDER BY 1")[1:] == [
        (1, 0, 8, 16.0), (2, 1, 8, 16.0), (3, 0, shape["rank"], shape["alpha"])
    ]  # fmt: skip
    step = learn(engine, trainer, 8, 3)
    assert (step.version, step.parent_version, "new_line" in step.metrics) == (4, 3, False)
    assert state_of(trainer, 4)["optimizer_step"] == 2


def test_a_new_line_is_the_one_that_another_policy_would_have_begun(
    engine: Engine, make_trainer: Make
) -> None:
    """Nothing of the old line is left in it, though the base is the same in memory: a fresh process makes these bytes."""
    learn(engine, make_trainer(), 1, 0)
    trainer = make_trainer(lora_rank=16)
    learn(engine, trainer, 2, 1)
    saved = trainer.settings.adapters / "default@2" / "adapter_model.safetensors"
    with engine.connect() as connection:
        row = connection.execute(text("SELECT id, settings FROM training_steps WHERE version = 2")).one()
        samples = read_samples(connection, replace(NOBODYS, id=row.id))
    settings = trainer.settings.with_learning(row.settings)
    learned = learn_once(ModelCache().get(settings), Parent(), samples, settings)
    assert save_safetensors(learned.adapter, metadata={"format": "pt"}) == saved.read_bytes()


def test_samples_of_the_old_line_are_as_old_as_before(engine: Engine, make_trainer: Make) -> None:
    """Counted from version 0, those of version 3 would all be too stale; those of version 1 are, by 3 - 1 > 1."""
    for version in range(3):
        learn(engine, make_trainer(), version, version)
    add_group(engine, 20, [1.0, 0.0], version=1)
    trainer = make_trainer(lora_rank=16, max_staleness=1, step_groups=2)
    step = learn(engine, trainer, 21, 3)
    assert (step.state, step.version) == (StepState.PUBLISHED, 4)
    found = f"""SELECT e.version, s.staleness, s.reason FROM step_samples AS s
        JOIN exchanges AS e ON e.id = s.exchange_id WHERE s.step_id = '{step.id}' ORDER BY 1"""
    assert rows(engine, found) == [(1, -1, "too_stale")] * 2 + [(3, -3, None)] * 2


def test_the_shape_of_a_version_that_was_made_before_it_was_recorded_is_read_from_its_adapter(
    engine: Engine, make_trainer: Make
) -> None:
    learn(engine, make_trainer(), 1, 0)
    with engine.begin() as connection:
        connection.execute(text("UPDATE policy_versions SET lora_rank = NULL, lora_alpha = NULL"))
    assert learn(engine, make_trainer(), 2, 1).parent_version == 1
    with engine.begin() as connection:
        connection.execute(text("UPDATE policy_versions SET lora_rank = NULL, lora_alpha = NULL"))
    assert learn(engine, make_trainer(lora_rank=16), 3, 2).parent_version == 0


def test_a_begun_step_ends_in_the_shape_it_began_with(
    engine: Engine, make_trainer: Make, replica: FakeReplica
) -> None:
    replica.is_failing = True
    step = learn(engine, make_trainer(), 1, 0)
    assert step.state is StepState.SAVED
    replica.is_failing = False
    with engine.begin() as connection:
        connection.execute(text("UPDATE training_steps SET lease_expires_at = clock_timestamp()"))
    step = tick(make_trainer(lora_rank=16))
    assert (step.version, step.state) == (1, StepState.PUBLISHED)
    assert one(engine, "SELECT lora_rank FROM policy_versions WHERE version = 1") == 8


def test_after_a_rollback_to_the_old_line_the_settings_decide(engine: Engine, make_trainer: Make) -> None:
    learn(engine, make_trainer(), 1, 0)
    learn(engine, make_trainer(lora_rank=16), 2, 1)
    with engine.begin() as connection:
        [policy] = read_policies(connection)
        move_live(connection, policy.id, 1)
    step = learn(engine, make_trainer(), 3, 1)
    assert (step.version, step.parent_version) == (3, 1)
    step = learn(engine, make_trainer(lora_rank=16), 4, 3)
    assert (step.version, step.parent_version) == (4, 0)


def test_a_rank_that_a_server_does_not_take_is_not_trained(
    engine: Engine, make_trainer: Make, replica: FakeReplica
) -> None:
    """B154: it is asked before the step, not found out after it; the old line serves on and nothing is claimed."""
    learn(engine, make_trainer(), 1, 0)
    replica.max_rank = 8
    trainer = make_trainer(lora_rank=16)
    now = [1000.0]
    trainer.servable = ServableShapes(clock=lambda: now[0])
    with capture_logs() as logs:
        assert learn(engine, trainer, 2, 1) is None
        assert tick(trainer) is None
    [refused] = [log for log in logs if log["event"] == "new_line_refused"]
    assert "greater than max_lora_rank 8" in refused["reason"]
    assert "--max-lora-rank 16" in refused["reason"]
    assert rows(engine, "SELECT state FROM groups ORDER BY id") == [("trained",), ("open",)]
    assert {path.name for path in trainer.settings.adapters.iterdir()} == {"default@1"}
    replica.max_rank = 16
    assert tick(trainer) is None  # asked again after a minute
    now[0] += AGAIN_SECONDS
    assert tick(trainer).version == 2
    assert list(replica.adapters) == ["default@1", "default@2"]


def test_two_workers_with_different_ranks_do_not_begin_a_line_at_each_turn(
    engine: Engine, make_trainer: Make
) -> None:
    """The newest one's settings hold; the other waits."""
    old, new = make_trainer(), make_trainer(lora_rank=16)
    learn(engine, old, 1, 0)
    with engine.begin() as connection:
        tell(connection, new.settings)
    assert learn(engine, new, 2, 1).parent_version == 0
    assert learn(engine, old, 3, 2) is None
    step = tick(new)
    assert (step.version, step.parent_version) == (3, 2)


def test_an_adapter_of_another_base_is_never_gone_on_from(
    engine: Engine, make_trainer: Make, tiny_path: Path
) -> None:
    """Whoever moved the files: the shapes would fit."""
    trainer = make_trainer()
    learn(engine, trainer, 1, 0)
    path = trainer.settings.adapters / "default@1" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"base_model_name_or_path": "another"}))
    step = learn(engine, trainer, 2, 1)
    assert step.state is StepState.BUILT
    assert "never applied to another base" in one(
        engine, "SELECT reason FROM training_steps WHERE version = 2"
    )


def test_a_policy_that_has_no_version_asks_no_server(engine: Engine, make_trainer: Make) -> None:
    trainer = make_trainer(upstream_urls="http://127.0.0.1:1")
    with engine.connect() as connection:
        [policy] = read_policies(connection)
    assert trainer.servable.allows(engine, Learner(policy, trainer.settings))
