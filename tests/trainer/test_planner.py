"""Who answers dry runs: a thread of the worker, whatever else it does."""

from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

from sqlalchemy import text

from ledger.plans import ask_plan, take_answer, waiting_plan, withdraw_plan
from ledger.policies import ensure_policy
from ledger.workers import worker_of, worker_started
from tests.trainer.traffic import add_group, one, rows
from trainer import planner as planner_module
from trainer import step as story
from trainer.plan import read_plan, reading
from trainer.planner import Planner
from trainer.worker import tell


def asked(engine) -> Any:
    with engine.begin() as connection:
        return ask_plan(connection, "default")


def answer(engine, plan_id) -> Any:
    with engine.begin() as connection:
        return take_answer(connection, plan_id)


def eventually(look) -> Any:
    deadline = monotonic() + 20
    while not (found := look()):
        assert monotonic() < deadline
        sleep(0.05)
    return found


def test_a_question_is_answered_once_and_its_row_is_gone(engine, make_trainer) -> None:
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    planner = Planner(trainer.settings, engine)
    assert not planner.answer_one()
    plan_id = asked(engine)
    assert answer(engine, plan_id) is None
    assert planner.answer_one()
    assert not planner.answer_one()
    found = answer(engine, plan_id)
    with reading(engine) as connection:
        assert found == read_plan(connection, trainer.settings)
    assert found["policies"][0]["totals"]["num_used"] == 2
    assert one(engine, "SELECT count(*) FROM plans") == 0


def test_the_thread_answers_and_says_that_it_lives(engine, make_trainer, monkeypatch) -> None:
    monkeypatch.setattr(planner_module, "LOOK_SECONDS", 0.05)
    trainer = make_trainer()
    with engine.begin() as connection:
        tell(connection, trainer.settings)
        connection.execute(text("UPDATE workers SET seen_at = now() - interval '1 day'"))
    planner = Planner(trainer.settings, engine)
    thread = Thread(target=planner.run, daemon=True)
    thread.start()
    plan_id = asked(engine)
    assert eventually(lambda: answer(engine, plan_id))["object"] == "plan"
    eventually(lambda: one(engine, "SELECT seen_at > now() - interval '1 hour' FROM workers"))
    planner.end()
    thread.join(10)
    assert not thread.is_alive()


def test_a_question_is_answered_while_a_step_is_training(engine, make_trainer, monkeypatch) -> None:
    trainer = make_trainer()
    add_group(engine, 1, [1.0, 0.0])
    is_training, may_end = Event(), Event()
    train = story.learn

    def slowly(*arguments: Any, **named: Any) -> Any:
        is_training.set()
        assert may_end.wait(30)
        return train(*arguments, **named)

    monkeypatch.setattr(story, "learn", slowly)
    step = Thread(target=story.tick, args=(trainer,), daemon=True)
    step.start()
    assert is_training.wait(30)
    add_group(engine, 2, [1.0, 0.5])
    plan_id = asked(engine)
    assert Planner(trainer.settings, engine).answer_one()
    [plan] = answer(engine, plan_id)["policies"]
    may_end.set()
    step.join(60)
    assert plan["active_step"]["version"] == 1
    assert plan["active_step"]["state"] == "built"
    assert [group["num_scored"] for group in plan["groups"]] == [2]
    assert one(engine, "SELECT state FROM training_steps") == "published"


def test_what_cannot_be_computed_is_answered_and_the_next_question_too(
    engine, make_trainer, monkeypatch
) -> None:
    planner = Planner(make_trainer().settings, engine)

    def broken(*_: object) -> None:
        raise ValueError("secret")

    with monkeypatch.context() as patched:
        patched.setattr(planner_module, "read_plan", broken)
        plan_id = asked(engine)
        assert planner.answer_one()
    found = answer(engine, plan_id)
    assert found == {"object": "error", "message": "The worker could not compute it: ValueError."}
    plan_id = asked(engine)
    assert planner.answer_one()
    assert answer(engine, plan_id)["object"] == "plan"


def test_a_plan_that_cannot_be_written_blocks_no_other(engine, make_trainer, monkeypatch) -> None:
    planner = Planner(make_trainer().settings, engine)
    first, second = asked(engine), asked(engine)
    plans = iter([{"object": "plan", "policies": [float("nan")]}, {"object": "plan", "policies": []}])
    monkeypatch.setattr(planner_module, "read_plan", lambda *_: next(plans))
    assert planner.answer_one()
    assert planner.answer_one()
    assert answer(engine, first) == {
        "object": "error",
        "message": "The worker could not compute it: DataError.",
    }
    assert answer(engine, second)["object"] == "plan"


def test_a_question_that_another_worker_took_is_left_to_it(engine, make_trainer) -> None:
    """Whoever dies meanwhile leaves it to the next, after a while."""
    planner = Planner(make_trainer().settings, engine)
    asked(engine)
    with engine.begin() as other:
        assert waiting_plan(other) is not None
        assert not planner.answer_one()
    assert not planner.answer_one()
    with engine.begin() as connection:
        connection.execute(text("UPDATE plans SET taken_at = now() - interval '2 minutes'"))
    assert planner.answer_one()


def test_a_question_can_be_taken_back_while_its_plan_is_computed(engine, make_trainer, monkeypatch) -> None:
    """No lock is held meanwhile, and nothing is left of it."""
    planner = Planner(make_trainer().settings, engine)
    plan_id = asked(engine)

    def slowly(*_: object) -> dict[str, Any]:
        with engine.begin() as connection:
            connection.execute(text("SET LOCAL lock_timeout = '1s'"))
            withdraw_plan(connection, plan_id)
        return {"object": "plan"}

    monkeypatch.setattr(planner_module, "read_plan", slowly)
    assert planner.answer_one()
    assert one(engine, "SELECT count(*) FROM plans") == 0


def test_a_worker_is_seen_while_it_computes_a_plan(engine, make_trainer, monkeypatch) -> None:
    """And answers one question a look."""
    monkeypatch.setattr(planner_module, "SEEN_SECONDS", 0.05)
    monkeypatch.setattr(planner_module, "LOOK_SECONDS", 3600)
    trainer = make_trainer()
    with engine.begin() as connection:
        tell(connection, trainer.settings)
    is_planning, may_end, answered = Event(), Event(), []

    def slowly(*_: object) -> dict[str, Any]:
        is_planning.set()
        assert may_end.wait(30)
        answered.append(True)
        return {"object": "plan"}

    monkeypatch.setattr(planner_module, "read_plan", slowly)
    first, second = asked(engine), asked(engine)
    planner = Planner(trainer.settings, engine)
    thread = Thread(target=planner.run, daemon=True)
    thread.start()
    assert is_planning.wait(30)
    with engine.begin() as connection:
        connection.execute(text("UPDATE workers SET seen_at = now() - interval '1 day'"))
    eventually(lambda: one(engine, "SELECT seen_at > now() - interval '1 hour' FROM workers"))
    may_end.set()
    assert eventually(lambda: answer(engine, first)) == {"object": "plan"}
    planner.end()
    thread.join(10)
    assert not thread.is_alive()
    assert answer(engine, second) is None
    assert len(answered) == 1


def test_questions_that_nobody_fetches_are_forgotten(engine, make_trainer) -> None:
    planner = Planner(make_trainer().settings, engine)
    old, new = asked(engine), asked(engine)
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE plans SET created_at = now() - interval '2 hours' WHERE id = :id"), {"id": old}
        )
        withdraw_plan(connection, new)
    asked(engine)
    while planner.answer_one():
        pass
    assert one(engine, "SELECT count(*) FROM plans") == 1
    assert one(engine, "SELECT answered_at FROM plans") is not None


def test_a_worker_tells_what_decides_and_no_address(engine, make_trainer) -> None:
    trainer = make_trainer(group_grace_seconds=7)
    with engine.begin() as connection:
        tell(connection, trainer.settings)
        told = worker_of(connection, rows(engine, "SELECT id FROM policies")[0].id)
    assert told.settings == trainer.settings.planning()
    assert told.settings["group_grace_seconds"] == 7
    assert not {"database_url", "redis_url", "upstream_urls"} & told.settings.keys()


def test_policies_of_other_workers_are_planned_with_what_those_run_with(engine, make_trainer) -> None:
    trainer = make_trainer()
    with engine.begin() as connection:
        for name in ("other", "nobodys"):
            ensure_policy(connection, name=name, base_model="elsewhere")
        settings = trainer.settings.planning() | {"step_groups": 5}
        worker_started(connection, policy="other", base_model="elsewhere", owner="w", settings=settings)
    with reading(engine) as connection:
        found = {plan["policy"]: plan for plan in read_plan(connection, trainer.settings)["policies"]}
    assert found["other"]["num_groups_needed"] == 5
    assert found["nobodys"]["worker"] is None
    assert found["default"]["worker"]["step_groups"] == trainer.settings.step_groups


def test_a_plan_is_of_one_project(engine, make_trainer) -> None:
    trainer = make_trainer()
    with engine.begin() as connection:
        acme = ensure_policy(
            connection, name="default", base_model=trainer.settings.base_model, project="acme"
        )
    with reading(engine) as connection:
        found = read_plan(connection, trainer.settings, acme.project_id)["policies"]
    assert [plan["project"] for plan in found] == ["acme"]
