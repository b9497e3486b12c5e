"""Several policies side by side: one worker, each policy with its own settings, schedule, base and adapters."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from ledger.errors import LedgerError
from ledger.policies import ensure_policy
from ledger.recording import record_calls
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import StepState
from ledger.workers import worker_of
from tests.trainer.fake_replica import FakeReplica, running_replica
from tests.trainer.tiny import save_tiny_model
from tests.trainer.traffic import call, one, rows
from trainer.learners import Learner, known_learners
from trainer.plan import read_plan, reading
from trainer.policy_settings import served_together, settings_of, trained_settings
from trainer.step import Trainer, tick
from trainer.worker import tell


@pytest.fixture(scope="session")
def other_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another base of the same shape: its adapters would load here, and mean nothing."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny") / "other", seed=11)


@pytest.fixture
def other_replica(other_path: Path) -> Iterator[FakeReplica]:
    with running_replica(other_path) as running:
        yield running


def add_group(engine: Engine, policy: str, base_model: str, seed: int, **changes: Any) -> None:
    record = call(seed, 2, policy=policy, **changes)
    with engine.begin() as connection:
        ensure_policy(connection, name=policy, base_model=base_model)
        record_calls(connection, [record])
        for choice in range(2):
            post_reward(
                connection, "default", RewardPost(str(record.call_id), value=float(choice), choice=choice)
            )


def name_of(engine: Engine, step: Any) -> str:
    return str(one(engine, f"SELECT name FROM policies WHERE id = '{step.policy_id}'"))


def config_of(trainer: Trainer, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((trainer.settings.adapters / name / "adapter_config.json").read_text())
    return found


def test_one_worker_trains_policies_with_settings_of_their_own_each_in_turn(
    engine: Engine, make_trainer: Callable[..., Trainer]
) -> None:
    trainer = make_trainer(policies={"support": {"lora_rank": 16, "learning_rate": 0.01, "step_groups": 2}})
    base_model = trainer.settings.base_model
    for seed in range(2):
        add_group(engine, "default", base_model, seed)
    add_group(engine, "support", base_model, 5)
    first = tick(trainer)
    assert (name_of(engine, first), first.version) == ("default", 1)
    assert tick(trainer) is None  # support waits for its second group
    add_group(engine, "support", base_model, 6)
    second = tick(trainer)
    assert (name_of(engine, second), second.version, second.state) == ("support", 1, StepState.PUBLISHED)
    assert (config_of(trainer, "default@1")["r"], config_of(trainer, "support@1")["r"]) == (8, 16)
    recorded = (
        "SELECT settings ->> 'learning_rate', (settings ->> 'lora_rank')::int FROM training_steps ORDER BY id"
    )
    assert rows(engine, recorded) == [("0.001", 8), ("0.01", 16)]
    shapes = "SELECT policy, lora_rank, lora_alpha FROM v1.versions WHERE version = 1 ORDER BY policy"
    assert rows(engine, shapes) == [("default", 8, 16.0), ("support", 16, 16.0)]


def test_policies_take_turns_however_much_one_of_them_sends(
    engine: Engine, make_trainer: Callable[..., Trainer]
) -> None:
    trainer = make_trainer(step_max_groups=1, policies={"support": {}})
    for seed in range(3):
        add_group(engine, "default", trainer.settings.base_model, seed)
        add_group(engine, "support", trainer.settings.base_model, 10 + seed)
    turns = [name_of(engine, tick(trainer)) for _ in range(4)]
    assert turns == ["default", "support", "default", "support"]


def test_a_policy_on_another_base_is_trained_and_published_where_that_base_is_served(
    engine: Engine,
    make_trainer: Callable[..., Trainer],
    replica: FakeReplica,
    other_path: Path,
    other_replica: FakeReplica,
) -> None:
    table = {"base_model": str(other_path), "upstream_urls": other_replica.url}
    trainer = make_trainer(policies={"sql": table})
    add_group(engine, "default", trainer.settings.base_model, 1)
    add_group(engine, "sql", str(other_path), 2)
    assert {name_of(engine, tick(trainer)) for _ in range(2)} == {"default", "sql"}
    assert (list(replica.adapters), list(other_replica.adapters)) == (["default@1"], ["sql@1"])
    assert config_of(trainer, "sql@1")["base_model_name_or_path"] == str(other_path)
    together, all_of_them = served_together(trainer.settings), trained_settings(trainer.settings)
    assert [policy.name for policy in known_learners(engine, together)] == ["default"]  # who siblings may ask
    assert [policy.name for policy in known_learners(engine, all_of_them)] == ["default", "sql"]


def test_a_policy_that_cannot_go_on_holds_nobody_back(
    engine: Engine, make_trainer: Callable[..., Trainer], tmp_path: Path
) -> None:
    """Its base is gone: its step waits and is taken up at each of its turns, not at everybody's."""
    gone = str(tmp_path / "gone")
    trainer = make_trainer(policies={"broken": {"base_model": gone, "retry_seconds": 1e-9}})
    add_group(engine, "broken", gone, 1)
    step = tick(trainer)
    assert (name_of(engine, step), step.state) == ("broken", StepState.BUILT)
    for seed in range(2):
        add_group(engine, "default", trainer.settings.base_model, 10 + seed, version=seed)
        assert name_of(engine, tick(trainer)) == "default"
        assert name_of(engine, tick(trainer)) == "broken"
    assert one(engine, "SELECT live_version FROM policies WHERE name = 'default'") == 2
    assert "cannot be loaded" in one(engine, "SELECT reason FROM training_steps WHERE state = 'built'")


def test_a_worker_may_train_some_of_the_policies(
    engine: Engine, make_trainer: Callable[..., Trainer]
) -> None:
    trainer = make_trainer(policies={"support": {}, "sales": {}}, trained_policies=("sales",))
    for seed, name in enumerate(("default", "support", "sales")):
        add_group(engine, name, trainer.settings.base_model, seed)
    assert name_of(engine, tick(trainer)) == "sales"
    assert tick(trainer) is None


def test_a_policy_of_the_file_learns_in_every_project(
    engine: Engine, make_trainer: Callable[..., Trainer]
) -> None:
    trainer = make_trainer(policies={"support": {"seed": 3}})
    base_model = trainer.settings.base_model
    with engine.begin() as connection:
        ensure_policy(connection, name="support", base_model=base_model, project="acme")
    record = call(4, 2, policy="support", project="acme")
    with engine.begin() as connection:
        record_calls(connection, [record])
        for choice in range(2):
            post_reward(
                connection, "acme", RewardPost(str(record.call_id), value=float(choice), choice=choice)
            )
    step = tick(trainer)
    assert (
        step.settings["seed"],
        rows(engine, "SELECT adapter_path FROM v1.versions WHERE version = 1"),
    ) == (
        3,
        [("acme@support@1",)],
    )


def test_a_worker_tells_what_it_trains_each_policy_with(
    engine: Engine, make_trainer: Callable[..., Trainer]
) -> None:
    trainer = make_trainer(policies={"support": {"step_groups": 5}})
    with engine.begin() as connection:
        policy = ensure_policy(connection, name="support", base_model=trainer.settings.base_model)
        tell(connection, trainer.settings)
        told = worker_of(connection, policy.id)
    assert told is not None
    assert (told.settings["step_groups"], trainer.settings.step_groups) == (5, 1)


def test_a_plan_says_of_each_policy_what_its_own_settings_make_of_it(
    engine: Engine, make_trainer: Callable[..., Trainer]
) -> None:
    """Also where no worker was started yet: with the file of whoever asks."""
    trainer = make_trainer(policies={"support": {"step_groups": 2}})
    for seed, name in enumerate(("default", "support")):
        add_group(engine, name, trainer.settings.base_model, seed)
    for is_worker in (True, False):
        with reading(engine) as connection:
            plans = read_plan(connection, trainer.settings, is_worker=is_worker)["policies"]
        due = {plan["policy"]: (plan["is_due"], plan["worker"]["step_groups"]) for plan in plans}
        assert due == {"default": (True, 1), "support": (False, 2)}


def test_another_base_under_a_policys_name_is_refused(
    engine: Engine, make_trainer: Callable[..., Trainer]
) -> None:
    trainer = make_trainer()
    other = trainer.settings.model_copy(update={"base_model": "another"})
    with pytest.raises(LedgerError, match="a new policy name"):
        tick(Trainer(other, engine, trainer.models, owner="another"))


def test_what_a_table_does_not_say_is_the_process_own(settings_of: Callable[..., Any]) -> None:
    settings = settings_of(
        learning_rate=0.5, policies={"support": {"upstream_urls": ["http://a", "http://b/v1"]}}
    )
    default, support = trained_settings(settings)
    assert (default.policy, support.policy) == ("default", "support")
    assert (support.learning_rate, support.upstream_urls) == (0.5, ("http://a", "http://b"))


def test_settings_that_were_read_hold_whatever_the_file_says_later(
    make_trainer: Callable[..., Trainer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(policies={"support": {"seed": 3}})
    (tmp_path / "slipstream.toml").write_text("this is no TOML")
    monkeypatch.setenv("SLIPSTREAM_CONFIG", str(tmp_path / "slipstream.toml"))
    monkeypatch.setenv("SLIPSTREAM_SEED", "9")
    assert trainer.settings.with_learning({"learning_rate": 0.25}).seed == 0
    assert settings_of(trainer.settings, "support").seed == 3


class _Broken:
    """As ServableShapes: of one policy its adapter's files are damaged in a way that nobody foresaw."""

    def __init__(self, name: str) -> None:
        self.name = name

    def allows(self, engine: Engine, learner: Learner) -> bool:
        if learner.policy.name == self.name:
            raise KeyError("r")
        return True


def test_a_policy_that_cannot_be_looked_at_holds_back_no_other_and_is_told(
    engine: Engine, make_trainer: Callable[..., Trainer]
) -> None:
    trainer = make_trainer(policies={"support": {}})
    trainer.servable = _Broken("default")  # type: ignore[assignment]
    add_group(engine, "default", trainer.settings.base_model, 1)
    add_group(engine, "support", trainer.settings.base_model, 2)
    step = tick(trainer)
    assert (name_of(engine, step), step.state) == ("support", StepState.PUBLISHED)  # type: ignore[union-attr]
    with pytest.raises(KeyError):
        tick(trainer)
