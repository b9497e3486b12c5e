"""The supervisor's state machine, on children that are small Python programs."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from slipstream.errors import ChildFailedError
from slipstream.local.child import Child, ChildSpec, State
from slipstream.local.home import Home
from slipstream.local.supervisor import StopRequested, Supervisor

SLEEP = "import time; time.sleep(600)"
Make = Callable[..., Supervisor]


@pytest.fixture
def make(home: Home) -> Iterator[Make]:
    made: list[Supervisor] = []

    def make(*specs: ChildSpec) -> Supervisor:
        lines: list[str] = []
        made.append(
            Supervisor(home, specs, {"url": "http://x", "lines": lines}, lines.append, lambda _: None)
        )
        return made[-1]

    yield make
    for supervisor in made:
        supervisor.num_stop_requests = 2
        supervisor.stop()


def spec(name: str, code: str = SLEEP, **more: object) -> ChildSpec:
    return ChildSpec(name, "Mend it.", command=(sys.executable, "-c", code), **{"grace_seconds": 1, **more})  # type: ignore[arg-type]


def turn_until(supervisor: Supervisor, condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        supervisor.turn()


def test_children_start_when_what_they_need_is_up(make: Make, tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    first = spec("first", f"open({str(sign)!r}, 'w').close()", is_one_shot=True)
    second = spec(
        "second", f"import os, time; assert os.path.exists({str(sign)!r}); time.sleep(600)", after=("first",)
    )
    supervisor = make(second, first)
    supervisor.start()
    assert [child.state for child in supervisor.children] == [State.READY, State.DONE]


def test_a_child_that_ends_at_start_fails_the_stack_with_its_last_lines(make: Make) -> None:
    supervisor = make(
        spec("good"), spec("broken", "print('the disk is on fire'); raise SystemExit(3)", ready=lambda: "no")
    )
    with pytest.raises(ChildFailedError, match=r"broken ended with exit code 3\. Mend it\.") as caught:
        supervisor.start()
    assert caught.value.last_lines == ["the disk is on fire"]
    supervisor.stop()
    assert [child.state for child in supervisor.children] == [State.STOPPED, State.FAILED]


def test_a_child_that_is_never_ready_fails_at_its_deadline(make: Make) -> None:
    supervisor = make(spec("slow", ready=lambda: "connection refused", start_seconds=1.4))
    with pytest.raises(ChildFailedError, match=r"slow was not ready within 1 s \(connection refused\)"):
        supervisor.start()


def test_an_outside_server_is_only_asked(make: Make) -> None:
    supervisor = make(ChildSpec("postgres", "Check DATABASE_URL.", lambda: "refused", start_seconds=0.3))
    with pytest.raises(ChildFailedError, match="Check DATABASE_URL"):
        supervisor.start()


def test_a_child_that_dies_while_the_stack_runs_is_started_again(make: Make) -> None:
    supervisor = make(spec("vllm"))
    supervisor.start()
    (child,) = supervisor.children
    assert child.process
    first = child.process.pid
    psutil.Process(first).children()[0].kill()
    turn_until(supervisor, lambda: child.state is State.BACKING_OFF)
    turn_until(supervisor, lambda: child.state is State.READY)
    assert child.process
    assert child.process.pid != first


def test_the_delay_doubles_up_to_half_a_minute_and_begins_anew_after_a_steady_minute(tmp_path: Path) -> None:
    child = Child(spec("vllm"), tmp_path / "log")
    assert [child.back_off() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    child.ready_at = time.monotonic() - 61
    assert child.back_off() == 1


def test_stopping_goes_backwards_and_leaves_no_process_and_no_run_file(make: Make, home: Home) -> None:
    supervisor = make(spec("first"), spec("second", after=("first",)))
    supervisor.start()
    pids = [pid for pid, _ in json.loads((home / "run.json").read_text())["leashes"].values()]
    order: list[str] = []
    supervisor.draw = lambda children: order.append(
        "".join(c.spec.name[0] for c in children if c.state is State.STOPPED)
    )
    supervisor.stop()
    assert order == ["s", "fs"]
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not (home / "run.json").exists()


def test_a_stop_during_the_start_ends_it(make: Make) -> None:
    supervisor = make(spec("slow", ready=lambda: "not yet"))
    supervisor.request_stop()
    with pytest.raises(StopRequested):
        supervisor.start()


def test_the_run_file_is_private_and_names_the_supervisor(make: Make, home: Home) -> None:
    make(spec("first")).start()
    assert (home / "run.json").stat().st_mode & 0o777 == 0o600
    assert home.running()["url"] == "http://x"


def full_disk() -> None:
    raise OSError(28, "No space left on device")


def test_a_child_that_cannot_even_be_started_is_one_sentence(make: Make) -> None:
    supervisor = make(spec("postgres", before=full_disk))
    with pytest.raises(ChildFailedError, match=r"postgres cannot be started \(No space left on device\)"):
        supervisor.start()


def test_a_child_that_cannot_be_started_again_waits_and_the_others_run_on(make: Make) -> None:
    is_full = False

    def before() -> None:
        if is_full:
            full_disk()

    supervisor = make(spec("good"), spec("vllm", before=before))
    supervisor.start()
    good, child = supervisor.children
    is_full = True
    assert child.process
    psutil.Process(child.process.pid).children()[0].kill()
    turn_until(supervisor, lambda: child.num_failures >= 2)
    assert good.state is State.READY
    is_full = False
    turn_until(supervisor, lambda: child.state is State.READY)
