"""The servers of the bench as process trees: started on the stack's leash, so that none outlives the bench.

CPU and memory are read from /proc for the whole tree. Invariant: the leash itself is in no figure.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slipstream.local.child import Child, ChildSpec
from slipstream.local.leash import descendants

ROOT = Path(__file__).parent.parent.parent
_TICKS = os.sysconf("SC_CLK_TCK")
_POLL_SECONDS = 0.05


class ChildFailedError(Exception):
    """A server of the bench did not start."""


class Tree:
    """A server's processes: everything below its leash."""

    def __init__(self, leash: int) -> None:
        self._leash = leash

    def pids(self) -> set[int]:
        return descendants(self._leash)

    def cpu_seconds(self) -> float:
        """Of all living processes, and of their ended children, since each began."""
        return sum(_cpu_seconds(pid) for pid in self.pids())

    def memory_kib(self) -> int:
        """Proportional set size: a page that two processes share counts once."""
        return sum(_pss_kib(pid) for pid in self.pids())

    def freeze(self) -> None:
        """Not one cycle is taken from the contender whose turn it is."""
        for pid in self.pids():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in self.pids():
            os.kill(pid, signal.SIGCONT)


def _cpu_seconds(pid: int) -> float:
    """Threads by schedstat, which counts nanoseconds where stat counts hundredths; ended children by stat."""
    seconds = 0.0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # a thread that just ended
            seconds += int(thread.read_text().split()[0]) / 1e9
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        seconds += (int(fields[13]) + int(fields[14])) / _TICKS
    return seconds


def _pss_kib(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


@contextmanager
def started(spec: ChildSpec, directory: Path) -> Iterator[Tree]:
    """Ready when entered, gone when left. Raises ChildFailedError with the last lines of its log."""
    child = Child(spec, directory / f"{spec.name}.log")
    child.start()
    assert child.process
    tree = Tree(child.process.pid)
    try:
        _await_ready(child)
        yield tree
    finally:
        with suppress(OSError):
            tree.thaw()
        child.end()


def _await_ready(child: Child) -> None:
    spec, deadline = child.spec, time.monotonic() + child.spec.start_seconds
    missing = "starting"
    while time.monotonic() < deadline:
        code = child.exit_code()
        if code is not None and spec.is_one_shot and code == 0:
            return
        if code is not None:
            missing = f"ended with exit code {code}"
            break
        if not spec.is_one_shot and not (missing := spec.ready()):
            return
        time.sleep(_POLL_SECONDS)
    lines = "\n".join(child.last_lines())
    raise ChildFailedError(f"{spec.name} did not start ({missing}). {spec.remedy}\n{lines}")


def environment(**values: str) -> dict[str, str]:
    """Ours, without what would configure Slipstream or a proxy on the way, and with the project importable."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("SLIPSTREAM_", "DATABASE_URL", "REDIS_URL")) and "proxy" not in key.lower()
    }
    return {**kept, "PYTHONPATH": str(ROOT), **values}


def python(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, *arguments)
