"""Publishing: every replica proves the version, or live does not move (I7)."""

import os
from contextlib import ExitStack

import pytest
import torch
from safetensors.torch import load_file, save_file

from ledger.vocabulary import StepState
from tests.trainer.fake_replica import running_replica
from tests.trainer.traffic import add_group, one, rows
from trainer.errors import ReplicaRefusedError
from trainer.pull import pull
from trainer.replica import Replica
from trainer.step import tick
from trainer.store import Store


def tick_until(trainer, state: str, engine) -> None:
    for _ in range(200):
        tick(trainer)
        if one(engine, "SELECT state FROM training_steps") == state:
            return
    raise AssertionError(f"never {state}")


def test_i7_live_moves_only_after_every_replica_has_confirmed(
    engine, make_trainer, tiny_path, replica
) -> None:
    """I7: all replicas or none."""
    with ExitStack() as stack:
        other = stack.enter_context(running_replica(tiny_path))
        trainer = make_trainer(upstream_urls=f"{replica.url},{other.url}")
        add_group(engine, 1, [1.0, 0.0])
        other.is_failing = True
        assert tick(trainer).state is StepState.SAVED
        assert one(engine, "SELECT live_version FROM policies") == 0
        assert "503" in one(engine, "SELECT reason FROM training_steps")
        assert set(replica.adapters) == {"default@1"}
        other.is_failing = False
        tick_until(trainer, "published", engine)
        assert set(other.adapters) == {"default@1"}
        assert one(engine, "SELECT live_version FROM policies") == 1


def test_a_name_that_is_loaded_already_is_fine(engine, make_trainer, replica) -> None:
    """B148: 400 'already been loaded' is what a retry after a crash gets."""
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    replica.answers_as = "base"
    tick(trainer)
    replica.answers_as = None
    tick_until(trainer, "published", engine)
    assert replica.paths().count("/v1/load_lora_adapter") >= 2


@pytest.mark.parametrize("fault", ["refused", "wrong name", "wrong weights", "the parent's weights"])
def test_a_replica_that_does_not_prove_the_version_leaves_live_where_it_is(
    engine, make_trainer, replica, fault
) -> None:
    """I7, B153, B154: refused at load, answered by another model, answered with other weights, be
    they only one step away."""
    trainer = make_trainer(publish_attempts=2)
    add_group(engine, 1, [1.0, 0.0])
    if fault == "refused":
        replica.load_error = (400, "LoRA rank 8 is greater than max_lora_rank 4")
    elif fault == "wrong name":
        replica.answers_as = "base"
    else:
        noise, size = torch.Generator().manual_seed(1), float(fault == "wrong weights")
        replica.adapters["other"] = {
            name: size * torch.randn(value.shape, generator=noise)
            for name, value in replica.model.lora.items()
        }
        replica.serves = "other"
    tick_until(trainer, "failed", engine)
    assert one(engine, "SELECT live_version FROM policies") == 0
    assert rows(engine, "SELECT version, state FROM policy_versions ORDER BY 1") == [
        (0, "base"),
        (1, "failed"),
    ]
    assert replica.url in one(engine, "SELECT reason FROM training_steps")
    assert rows(engine, "SELECT state, reason FROM groups") == [("skipped", "failed")]
    replica.load_error = replica.answers_as = replica.serves = None
    add_group(engine, 2, [1.0, 0.0])
    assert tick(trainer).version == 2  # the refused name is never used again


def test_an_unreachable_replica_is_waited_for_without_end(engine, make_trainer, replica) -> None:
    trainer = make_trainer(publish_attempts=1, retry_seconds=0.001)
    add_group(engine, 1, [1.0, 0.0])
    replica.is_failing = True
    for _ in range(5):
        tick(trainer)
    assert one(engine, "SELECT state FROM training_steps") == "saved"
    replica.is_failing = False
    tick_until(trainer, "published", engine)


@pytest.mark.parametrize("damage", ["truncated", "changed", "removed"])
def test_an_adapter_damaged_on_disk_is_never_loaded(engine, make_trainer, replica, damage) -> None:
    """B163: checked against its digest before any replica hears of it; the old version serves on."""
    trainer = make_trainer(publish_attempts=1)
    add_group(engine, 1, [1.0, 0.0])
    replica.is_failing = True
    assert tick(trainer).state is StepState.SAVED
    weights = trainer.settings.adapters / "default@1" / "adapter_model.safetensors"
    if damage == "truncated":
        os.truncate(weights, weights.stat().st_size // 2)
    elif damage == "changed":
        save_file({name: value + 1 for name, value in load_file(weights).items()}, weights)
    else:
        weights.unlink()
    replica.is_failing = False
    replica.calls.clear()
    tick_until(trainer, "failed", engine)
    assert replica.paths() == []
    assert one(engine, "SELECT live_version FROM policies") == 0


def test_versions_older_than_those_kept_are_unloaded_after_publishing(engine, make_trainer, replica) -> None:
    trainer = make_trainer(keep_versions=1)
    for version in range(4):
        add_group(engine, version, [1.0, 0.0], version=version)
        tick(trainer)
    assert one(engine, "SELECT live_version FROM policies") == 4
    assert set(replica.adapters) == {"default@3", "default@4"}
    on_disk = {path.name for path in trainer.settings.adapters.iterdir()}
    assert on_disk == {f"default@{n}" for n in range(1, 5)}


def test_a_probe_that_answers_with_nan_does_not_pass(tiny_path, replica, monkeypatch) -> None:
    replica.adapters["default@1"] = {name: value.detach() for name, value in replica.model.lora.items()}
    monkeypatch.setattr(replica.model, "next_token_logprobs", lambda _: torch.full((64,), float("nan")))
    with Replica(replica.url, 5.0) as client, pytest.raises(ReplicaRefusedError):
        client.probe("default@1", {"prompt_ids": [1, 2], "top": [[0, -1.0]]}, tolerance=0.1)


def test_a_replica_on_another_machine_is_waited_for_until_it_has_pulled(
    engine, make_trainer, replica, tmp_path
) -> None:
    """The trainer's disk and the replica's share nothing but a store."""
    url, replica.disk = f"file://{tmp_path}/bucket", tmp_path / "vllm"
    trainer = make_trainer(adapters_url=url)
    add_group(engine, 1, [1.0, 0.0])
    for _ in range(10):
        tick(trainer)
    assert rows(engine, "SELECT state, attempt FROM training_steps") == [("saved", 1)]
    assert "slipstream adapters pull" in one(engine, "SELECT reason FROM training_steps")
    assert pull(Store(url), replica.disk) == ["default@1"]
    tick_until(trainer, "published", engine)
    assert one(engine, "SELECT live_version FROM policies") == 1
