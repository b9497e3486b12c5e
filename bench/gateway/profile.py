"""Where the proxy's time goes: py-spy looks at it while it has its turn. A profiled turn's figures count for nothing.

Writes build/bench/profile-MEASURE.txt: CPU by thread, then functions by the share of samples in which they ran
themselves, and with what they called.
"""

import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.gateway.environments import ENVIRONMENTS, installed

_PY_SPY = "py-spy==0.4.3"
_PER_SECOND = 400
_NUM_LINES = 50
_THREAD = re.compile(r"thread \((\d+)\): (.*)")
_WAITING = (  # seen as running, but asleep
    "_worker (concurrent/futures/thread.py",
    "Condition.wait (threading.py",
    "Recorder._next_entries (proxy/recorder.py",
    "Connection.wait (psycopg/connection.py",
)
_ON_EVERY_STACK = re.compile(
    r"\((<frozen|typer/|slipstream/|threading|asyncio/runners|uvicorn/(server|_compat))"
)


@contextmanager
def profiled(pid: int, measure: str, report: Callable[[str], None]) -> Iterator[None]:
    program = installed("py-spy", [_PY_SPY], report) / "py-spy"
    raw = ENVIRONMENTS / f"profile-{measure}.raw"
    command = [str(program), "record", "-p", str(pid), "-f", "raw", "-o", str(raw), "-r", str(_PER_SECOND)]
    before = _seconds_by_thread(pid)
    with subprocess.Popen(
        [*command, "--threads", "-d", "3600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as spy:
        try:
            yield
        finally:
            spent = {tid: now - before.get(tid, 0.0) for tid, now in _seconds_by_thread(pid).items()}
            spy.send_signal(signal.SIGINT)
            spy.wait(60)
    if raw.exists():
        path = raw.with_suffix(".txt")
        path.write_text(summary(raw.read_text(encoding="utf-8").splitlines(), spent), encoding="utf-8")
        report(f"profile: {path}")


def _seconds_by_thread(pid: int) -> dict[int, float]:
    found = {}
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):
            found[int(path.parent.name)] = int(path.read_text(encoding="utf-8").split()[0]) / 1e9
    return found


def summary(lines: Iterable[str], seconds_by_thread: dict[int, float]) -> str:
    """Of folded stacks `thread (7): name;a;b 12`, those that wait left out."""
    own: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    names: dict[int, str] = {}
    for line in lines:
        stack, _, count = line.rpartition(" ")
        thread, *frames = stack.split(";")
        if found := _THREAD.match(thread):
            names[int(found[1])] = found[2]
        if not frames or frames[-1].startswith(_WAITING):
            continue
        own[_without_line(frames[-1])] += int(count)
        for frame in {_without_line(frame) for frame in frames if not _ON_EVERY_STACK.search(frame)}:
            whole[frame] += int(count)
    threads = sorted(seconds_by_thread.items(), key=lambda item: -item[1])
    by_thread = "\n".join(f"{seconds:8.3f} s  {names.get(tid, tid)}" for tid, seconds in threads if seconds)
    parts = (("own time", own), ("with what they call", whole))
    tables = (f"{title}, of {own.total()} samples\n{_table(counts, own.total())}" for title, counts in parts)
    return "\n\n".join((f"CPU by thread\n{by_thread}", *tables, ""))


def _table(counts: Counter[str], total: int) -> str:
    return "\n".join(
        f"{100 * count / total:6.2f} %  {frame}" for frame, count in counts.most_common(_NUM_LINES)
    )


def _without_line(frame: str) -> str:
    """`feed (proxy/reply/sse.py:41)` → `feed (proxy/reply/sse.py)`."""
    place, _, number = frame.rpartition(":")
    return f"{place})" if number.rstrip(")").isdigit() else frame
