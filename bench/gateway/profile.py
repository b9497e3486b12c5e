"""Where the proxy's time goes: py-spy looks at it while it has its turn. A profiled turn's figures count for nothing.

Writes build/bench/profile-MEASURE.txt: functions by the share of samples in which they ran, or stood on the stack.
"""

import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.gateway.environments import ENVIRONMENTS, installed

_PY_SPY = "py-spy==0.4.3"
_PER_SECOND = 400
_NUM_LINES = 45


@contextmanager
def profiled(pid: int, measure: str, report: Callable[[str], None]) -> Iterator[None]:
    program = installed("py-spy", [_PY_SPY], report) / "py-spy"
    raw = ENVIRONMENTS / f"profile-{measure}.raw"
    command = [str(program), "record", "-p", str(pid), "-f", "raw", "-o", str(raw), "-r", str(_PER_SECOND)]
    # idle threads are left out: what is measured is CPU
    with subprocess.Popen(
        [*command, "--threads", "-d", "3600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as spy:
        try:
            yield
        finally:
            spy.send_signal(signal.SIGINT)
            spy.wait(60)
    if raw.exists():
        text = summary(raw.read_text(encoding="utf-8").splitlines())
        path = raw.with_suffix(".txt")
        path.write_text(text, encoding="utf-8")
        report(f"profile: {path.relative_to(Path.cwd())}")


def summary(lines: Iterable[str]) -> str:
    """Of folded stacks `a;b;c 12`: the functions on top (own) and anywhere (with what they called), in percent."""
    own: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        frames = [_without_line(frame) for frame in stack.split(";")]
        own[frames[-1]] += int(count)
        for frame in set(frames):
            whole[frame] += int(count)
    total = max(1, own.total())
    parts = (("own time", own), ("with what they call", whole))
    return "\n".join(f"{title}, {total} samples\n{_table(counts, total)}\n" for title, counts in parts)


def _table(counts: Counter[str], total: int) -> str:
    return "\n".join(
        f"{100 * count / total:6.2f} %  {frame}" for frame, count in counts.most_common(_NUM_LINES)
    )


def _without_line(frame: str) -> str:
    """`feed (proxy/reply/sse.py:41)` → `feed (proxy/reply/sse.py)`."""
    place, _, number = frame.rpartition(":")
    return f"{place})" if number.rstrip(")").isdigit() else frame
