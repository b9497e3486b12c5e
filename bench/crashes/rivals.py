"""Two workers, one that sleeps through its lease, Postgres that goes away, and wall clocks that jump."""

from bench.crashes.account import Expected
from bench.crashes.crew import TooLateError, is_stopped, proceed, wait_for
from bench.crashes.points import MIDDLE, Act, Fault, Point
from bench.crashes.round import Round


def two_workers(run: Round, num_steps: int) -> Expected:
    """Both tick all the time; each step is one worker's."""
    run.crew.beat()
    for number in range(2):
        run.crew.worker(f"worker-{number}")
    for version in range(1, num_steps + 1):
        run.add(version)
        run.await_published(version)
    return Expected(num_steps, attempts=1)


def stopped_longer_than_its_lease(run: Round, point: Point) -> Expected:
    """SIGSTOP; another one takes over and publishes; SIGCONT: the first finds its token refused and touches nothing."""
    run.crew.beat()
    run.crew.arm()
    sleeper = run.crew.worker("sleeper", Fault(point, Act.STOP))
    run.add(1)
    wait_for("the worker that sleeps", lambda: run.crew.has_fired() and is_stopped(sleeper))
    run.crew.worker("other")
    run.await_published(1)
    before = run.digests()
    proceed(sleeper)
    wait_for("its waking up", lambda: "lease_lost" in run.crew.log("sleeper"))
    if run.digests() != before:
        raise TooLateError("the worker that slept touched the files of the version")
    run.add(2)
    run.await_published(2)
    return Expected(2)


def postgres_restarted(run: Round, num_steps: int) -> Expected:
    """SIGKILL of all of Postgres in the middle of each step, and started again."""
    run.crew.beat()
    run.crew.worker("worker", Fault(MIDDLE, Act.HOLD))
    for version in range(1, num_steps + 1):
        run.crew.hold_again()
        run.add(version)
        wait_for("its step", run.crew.has_fired)
        run.stage.checkpoint()
        run.stage.ledger.server.kill()
        run.stage.ledger.server.start()
        run.crew.release()
        run.await_published(version)
    return Expected(num_steps, attempts=1)


def clock_jumps(run: Round, act: Act) -> Expected:
    """By a day, in the middle of a step, beside a worker whose clock is right: nobody takes the step from it."""
    run.crew.beat()
    run.crew.arm()
    run.crew.worker("jumper", Fault(MIDDLE, act))
    run.add(1)
    wait_for("the jump", run.crew.has_fired)
    run.crew.worker("other")
    run.await_published(1)
    for version in (2, 3):
        run.add(version)
        run.await_published(version)
    return Expected(3, attempts=1)


def clock_jumps_alone(run: Round, act: Act) -> Expected:
    """The only worker's clock: to it all messages are of another day, and it ticks by itself."""
    run.crew.beat()
    run.crew.arm()
    run.crew.worker("jumper", Fault(MIDDLE, act))
    for version in (1, 2):
        run.add(version)
        run.await_published(version)
    return Expected(2, attempts=1)
