"""Steps that cannot be made, or fail on their way: what becomes of their groups."""

from sqlalchemy import text

from ledger.vocabulary import StepState
from tests.trainer.traffic import add_group, one, rows
from trainer import step as story
from trainer.step import tick


def test_a_batch_that_fails_twice_is_set_aside_with_its_reason(engine, make_trainer, monkeypatch) -> None:
    def explode(*_: object, **__: object) -> None:
        raise ArithmeticError("exchange 42 is not finite")

    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    with monkeypatch.context() as patch:
        patch.setattr(story, "learn", explode)
        tick(trainer)
        assert rows(engine, "SELECT state, attempt FROM training_steps") == [("built", 2)]
        while tick(trainer) is None:
            pass
    assert one(engine, "SELECT state FROM training_steps") == "failed"
    assert "exchange 42" in one(engine, "SELECT reason FROM training_steps")
    assert rows(engine, "SELECT state, reason FROM groups") == [("skipped", "failed")]
    add_group(engine, 2, [1.0, 0.0])
    step = tick(trainer)
    assert (step.state, step.version) == (StepState.PUBLISHED, 1)


def test_a_missing_base_model_waits_with_a_reason_and_costs_no_group(engine, make_trainer, tiny_path) -> None:
    trainer = make_trainer(device="cpu")
    add_group(engine, 1, [1.0, 0.0])
    hidden = tiny_path.rename(tiny_path.with_name("hidden"))
    try:
        for _ in range(3):
            tick(trainer)
    finally:
        hidden.rename(tiny_path)
    assert rows(engine, "SELECT state, attempt FROM training_steps") == [("built", 1)]
    assert "SLIPSTREAM_BASE_MODEL" in one(engine, "SELECT reason FROM training_steps")
    while tick(trainer) is None:
        pass
    assert one(engine, "SELECT live_version FROM policies") == 1


def test_i10_a_group_whose_exchanges_are_gone_is_closed_and_not_called_trained(engine, make_trainer) -> None:
    trainer = make_trainer(step_groups=2)
    (gone, _), _ = add_group(engine, 1, [1.0, 0.0]), add_group(engine, 2, [1.0, 0.0])
    with engine.begin() as connection:
        connection.execute(
            text(
                "DELETE FROM exchanges WHERE trajectory_id IN (SELECT id FROM trajectories WHERE group_id ="
                " (SELECT t.group_id FROM trajectories t JOIN exchanges e ON e.trajectory_id = t.id WHERE e.id = :id))"
            ),
            {"id": gone},
        )
    assert tick(trainer).state is StepState.PUBLISHED
    assert rows(engine, "SELECT state, reason FROM groups ORDER BY created_at") == [
        ("skipped", "group_incomplete"),
        ("trained", None),
    ]


def test_an_error_after_publishing_leaves_the_finished_step_as_it_is(
    engine, make_trainer, monkeypatch
) -> None:
    def explode(*_: object) -> None:
        raise RuntimeError("a replica answered something odd")

    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    monkeypatch.setattr(story, "unload_old_versions", explode)
    assert tick(trainer).state is StepState.PUBLISHED
    assert rows(engine, "SELECT state, attempt, reason, lease_expires_at FROM training_steps") == [
        ("published", 1, None, None)
    ]


def test_a_batch_that_fails_a_worker_that_was_fenced_out_fails_nobody_elses(
    engine, make_trainer, monkeypatch
) -> None:
    """I6: the outcome is the new holder's; the old one just ends its tick."""

    def fenced_out(*_: object, **__: object) -> None:
        with engine.begin() as connection:
            connection.execute(text("UPDATE training_steps SET fencing_token = fencing_token + 1"))
        raise ArithmeticError("too late")

    trainer = make_trainer(step_attempts=1)
    add_group(engine, 1, [1.0, 0.0])
    with monkeypatch.context() as patch:
        patch.setattr(story, "learn", fenced_out)
        tick(trainer)
    assert rows(engine, "SELECT state, reason FROM training_steps") == [("built", None)]
