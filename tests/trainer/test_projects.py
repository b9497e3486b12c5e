"""A policy for each project: one trainer makes the versions of all, and mixes none of them."""

from typing import Any

from sqlalchemy import Engine

from ledger.policies import ensure_policy
from ledger.recording import record_calls
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import StepState
from tests.trainer.traffic import call, one, rows
from trainer.step import tick


def add_group(engine: Engine, project: str, base_model: str, seed: int, **changes: Any) -> None:
    """One call with a good and a bad choice."""
    record = call(seed, 2, project=project, **changes)
    with engine.begin() as connection:
        ensure_policy(connection, name="default", base_model=base_model, project=project)
        record_calls(connection, [record])
        for choice in range(2):
            post_reward(
                connection, project, RewardPost(str(record.call_id), value=float(choice), choice=choice)
            )


def test_each_project_gets_versions_of_its_own_from_its_own_traffic(engine, make_trainer, replica) -> None:
    """I7: both make version 1, under names that cannot meet on disk or in vLLM."""
    trainer = make_trainer()
    base_model = trainer.settings.base_model
    add_group(engine, "default", base_model, 1)
    add_group(engine, "acme", base_model, 2)
    steps = [tick(trainer), tick(trainer)]
    assert [(step.state, step.version) for step in steps] == [(StepState.PUBLISHED, 1)] * 2
    assert tick(trainer) is None
    assert sorted(replica.adapters) == ["acme@default@1", "default@1"]
    names = {path.name for path in trainer.settings.adapters.iterdir()}
    assert names == {path.name for path in trainer.settings.checkpoints_root.iterdir()}
    assert names == {"acme@default@1", "default@1"}
    weights = [(trainer.settings.adapters / n / "adapter_model.safetensors").read_bytes() for n in names]
    assert weights[0] != weights[1]
    assert rows(engine, "SELECT project, policy, model, adapter_path FROM v1.versions WHERE is_live ORDER BY 1") == [
        ("acme", "default", "default@1", "acme@default@1"),
        ("default", "default", "default@1", "default@1"),
    ]  # fmt: skip
    mixed = """SELECT count(*) FROM step_samples AS s JOIN training_steps AS t ON t.id = s.step_id
        JOIN exchanges AS e ON e.id = s.exchange_id WHERE e.policy_id <> t.policy_id"""
    assert one(engine, mixed) == 0


def test_a_second_step_goes_on_from_its_own_projects_parent(engine, make_trainer) -> None:
    trainer = make_trainer()
    base_model = trainer.settings.base_model
    for version in (0, 1):
        for seed, project in enumerate(("default", "acme")):
            add_group(engine, project, base_model, 10 * version + seed, version=version)
        assert [tick(trainer).version for _ in range(2)] == [version + 1] * 2
    assert rows(engine, "SELECT version, parent_version, state FROM training_steps ORDER BY 1") == [
        (1, 0, "published"), (1, 0, "published"), (2, 1, "published"), (2, 1, "published")
    ]  # fmt: skip


def test_projects_take_turns_however_much_one_of_them_sends(engine, make_trainer) -> None:
    trainer = make_trainer(step_max_groups=1)
    base_model = trainer.settings.base_model
    for seed in range(3):
        add_group(engine, "default", base_model, seed)
    add_group(engine, "acme", base_model, 9)
    order = "SELECT p.name FROM projects AS p JOIN policies AS o ON o.project_id = p.id WHERE o.id = '{}'"
    steps = [tick(trainer) for _ in range(4)]
    turns = [one(engine, order.format(step.policy_id)) for step in steps]
    assert turns == ["default", "acme", "default", "default"]


def test_a_policy_on_another_base_is_left_to_its_own_trainer(engine, make_trainer) -> None:
    trainer = make_trainer()
    add_group(engine, "acme", "another-base", 1)
    assert tick(trainer) is None
    assert one(engine, "SELECT count(*) FROM training_steps") == 0
