"""kill -9 of a worker at a point, in each of several steps one after another; its supervisor starts it again."""

from typing import Any

from bench.crashes.account import Expected
from bench.crashes.points import MIDDLE, Fault, Point
from bench.crashes.round import Round
from bench.crashes.traffic import POISON_TOKEN, SAME


def kill_at(run: Round, point: Point, num_steps: int) -> Expected:
    """The version comes, and the next step starts from it."""
    fault = Fault(point)
    run.crew.beat()
    worker = run.crew.worker("worker", fault)
    for version in range(1, num_steps + 1):
        run.crew.arm()
        run.add(version)
        run.await_death(worker)
        worker = run.crew.worker("worker", fault)
        run.await_published(version)
    return Expected(num_steps)


def kill_while_set_aside(run: Round, point: Point, num_steps: int) -> Expected:
    """A batch that the model cannot take fails twice; its worker is killed while that is written down."""
    _kill_while_it_ends(run, point, num_steps, "failed", is_poison=True)
    return Expected(num_steps, num_failed=num_steps)


def kill_while_skipped(run: Round, point: Point, num_steps: int) -> Expected:
    """Nothing can be learned from equal rewards; its worker is killed while that is written down."""
    _kill_while_it_ends(run, point, num_steps, "skipped", rewards=SAME)
    return Expected(num_steps, num_skipped=num_steps)


def _kill_while_it_ends(run: Round, point: Point, num_steps: int, state: str, **batch: Any) -> None:
    """Each time a step that makes no version, and then one that does."""
    run.crew.beat()
    worker = run.crew.worker("worker", Fault(point))
    for version in range(1, num_steps + 1):
        run.crew.arm()
        run.add(50 + version, **batch)
        run.await_death(worker)
        worker = run.crew.worker("worker", Fault(point))
        run.await_ended(state, version)
        run.add(version)
        run.await_published(version)


def poison(run: Round) -> Expected:
    """Tried twice, then set aside with its reason; the next batch makes the version."""
    run.crew.beat()
    run.crew.worker("worker")
    run.add(50, is_poison=True)
    run.await_ended("failed")
    run.add(1)
    run.await_published(1)
    return Expected(1, num_failed=1, reason=f"token {POISON_TOKEN}")


def deadly_poison(run: Round) -> Expected:
    """A batch that kills whoever computes it, as one that needs too much memory does."""
    run.crew.beat()
    run.add(50)
    for _ in range(run.settings.step_attempts):
        run.crew.arm()
        run.await_death(run.crew.worker("worker", Fault(MIDDLE)))
    run.crew.worker("worker")
    run.await_ended("failed")
    run.add(1)
    run.await_published(1)
    return Expected(1, num_failed=1, reason="died in 2 attempts")


def nothing_trainable(run: Round) -> Expected:
    """No version, and a message that says what would help."""
    run.crew.beat()
    run.crew.worker("worker")
    run.add(50, rewards=SAME)
    run.await_ended("skipped")
    run.add(1)
    run.await_published(1)
    return Expected(1, num_skipped=1, reason="What would help")
