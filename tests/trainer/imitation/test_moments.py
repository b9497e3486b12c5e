"""The optimizer at the switch between kinds: whose moments a step begins with, and whose its checkpoint keeps."""

from ledger.vocabulary import StepState
from tests.trainer.imitation.given import answered, demonstrate, sft
from tests.trainer.traffic import add_group
from trainer.checkpoint import OPTIMIZER, read_parent
from trainer.imitation.build import read_material
from trainer.imitation.learning import learn
from trainer.parent import Parent
from trainer.step import tick


def optimizer_bytes(trainer, version: int) -> bytes:
    return (trainer.settings.checkpoints_root / f"default@{version}" / OPTIMIZER).read_bytes()


def test_moments_of_rewards_pass_a_step_of_sft_unchanged(engine, make_trainer) -> None:
    """grpo, sft, grpo: the third goes on with the first's moments and count, from the second's adapter."""
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    assert tick(trainer).version == 1
    demonstrate(engine, answered(engine, 2).call_id, "yes.")
    assert sft(trainer, "demonstrations").version == 2
    assert optimizer_bytes(trainer, 2) == optimizer_bytes(trainer, 1)
    grpo, imitated = (read_parent(trainer.settings, "default", version) for version in (1, 2))
    assert (imitated.optimizer_step, grpo.optimizer_step) == (1, 1)
    assert any((imitated.adapter[name] != grpo.adapter[name]).any() for name in grpo.adapter)
    add_group(engine, 3, [1.0, 0.0], version=2)
    assert tick(trainer).version == 3
    after = read_parent(trainer.settings, "default", 3)
    assert after.optimizer_step == 2
    assert {float(value) for name, value in after.moments.items() if name.endswith(".step")} == {2.0}


def test_after_a_first_step_of_sft_rewards_begin_with_fresh_moments(engine, make_trainer) -> None:
    trainer = make_trainer()
    demonstrate(engine, answered(engine, 1).call_id, "yes.")
    assert sft(trainer, "demonstrations").state is StepState.PUBLISHED
    parent = read_parent(trainer.settings, "default", 1)
    assert (parent.moments, parent.optimizer_step) == (None, 0)
    add_group(engine, 2, [1.0, 0.0], version=1)
    assert tick(trainer).version == 2
    after = read_parent(trainer.settings, "default", 2)
    assert {float(value) for name, value in after.moments.items() if name.endswith(".step")} == {1.0}


def test_imitation_begins_with_moments_of_nobody(engine, make_trainer) -> None:
    """The same adapter with and without moments: the same bytes."""
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    tick(trainer)
    demonstrate(engine, answered(engine, 2).call_id, "yes.")
    step = sft(trainer, "demonstrations")
    parent = read_parent(trainer.settings, "default", 1)
    with engine.begin() as connection:
        material = read_material(connection, step, trainer.settings)
    model = trainer.models.get(trainer.settings)
    found = [
        learn(model, each, material, trainer.settings, step)
        for each in (parent, Parent(parent.adapter, None, parent.optimizer_step))
    ]
    adapters = [{name: value.clone() for name, value in each.adapter.items()} for each in found]
    assert all((adapters[0][name] == adapters[1][name]).all() for name in adapters[0])
