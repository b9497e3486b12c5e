"""The loop that starts the children in order, restarts those that die, and stops them in reverse.

One process, no threads; every wait has a deadline. Raises ChildFailedError while the stack was never up yet.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable

from slipstream.errors import ChildFailedError
from slipstream.local.child import Child, ChildSpec, State
from slipstream.local.home import Home, process_mark, write_private

POLL_SECONDS = 0.2
PROBE_SECONDS = 0.5


class StopRequested(Exception):  # noqa: N818 - a request, not an error
    """Ctrl-C or SIGTERM came while the stack was starting."""


class Supervisor:
    """Owns the children of one stack. `report` gets one line per event, `draw` is called on every turn."""

    def __init__(
        self,
        home: Home,
        specs: Iterable[ChildSpec],
        description: dict[str, object],
        report: Callable[[str], None],
        draw: Callable[[list[Child]], None],
    ) -> None:
        self.home, self.description, self.report, self.draw = home, description, report, draw
        self.children = [Child(spec, home.log(spec.name)) for spec in specs]
        self.num_stop_requests = 0
        self._was_up = False
        self._next_probe_at = 0.0

    def request_stop(self, *_: object) -> None:
        """Signal handler. The second request kills at once."""
        self.num_stop_requests += 1
        if self.num_stop_requests > 1:
            for child in self.children:
                child.order(b"K")

    def start(self) -> None:
        """Return when every child is ready."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.request_stop)
        while not all(child.is_up for child in self.children):
            self.turn()
            if self.num_stop_requests:
                raise StopRequested
        self._was_up = True

    def watch(self) -> None:
        """Keep the children running until a stop is requested."""
        while not self.num_stop_requests:
            self.turn()

    def turn(self) -> None:
        is_probe_time = time.monotonic() >= self._next_probe_at
        for child in self.children:
            self.advance(child, is_probe_time)
        if is_probe_time:
            self._next_probe_at = time.monotonic() + PROBE_SECONDS
        self.draw(self.children)
        time.sleep(POLL_SECONDS)

    def advance(self, child: Child, is_probe_time: bool) -> None:
        """One transition of the state machine, if one is due."""
        if (child.state is State.WAITING and self.needs_are_up(child)) or (
            child.state is State.BACKING_OFF and time.monotonic() >= child.next_start_at
        ):
            self.launch(child)
        elif child.state in (State.STARTING, State.READY) and child.exit_code() is not None:
            self.exited(child)
        elif child.is_late():
            self.failed(child, f"was not ready within {child.spec.start_seconds:.0f} s ({child.missing})")
        elif child.state is State.STARTING and is_probe_time and not child.spec.is_one_shot:
            self.probe(child)

    def needs_are_up(self, child: Child) -> bool:
        return all(other.is_up for other in self.children if other.spec.name in child.spec.after)

    def launch(self, child: Child) -> None:
        try:
            child.start()
            self.write_run()
        except OSError as error:  # no space, no permission, no more processes
            self.failed(child, f"cannot be started ({error.strerror or error})")

    def probe(self, child: Child) -> None:
        child.missing = child.spec.ready()
        if not child.missing:
            child.became(State.READY)
            self.report(f"{child.spec.name} is ready after {child.seconds():.1f} s")

    def exited(self, child: Child) -> None:
        code = child.exit_code()
        if child.spec.is_one_shot and code == 0:
            child.end()
            child.became(State.DONE)
            self.report(f"{child.spec.name} is done after {child.seconds():.1f} s")
        else:
            self.failed(child, f"ended with exit code {code}")

    def failed(self, child: Child, what: str) -> None:
        lines = child.last_lines()
        child.end()
        if not self._was_up:
            child.became(State.FAILED)
            raise ChildFailedError(child.spec.name, what, child.spec.remedy, child.log, lines)
        delay = child.back_off()
        self.report(f"{child.spec.name} {what}: starting it again in {delay:.0f} s (log: {child.log})")

    def stop(self) -> None:
        """End all children, the last started first. Bounded by their graces."""
        for child in reversed(self.children):
            child.end(0 if self.num_stop_requests > 1 else None)
            if child.state is not State.FAILED:
                child.became(State.STOPPED)
            self.draw(self.children)
        (self.home / "run.json").unlink(missing_ok=True)

    def write_run(self) -> None:
        leashes = {
            c.spec.name: process_mark(c.process.pid)
            for c in self.children
            if c.process and c.process.poll() is None
        }
        run = {"supervisor": process_mark(os.getpid()), "leashes": leashes, **self.description}
        write_private(self.home / "run.json", run)
