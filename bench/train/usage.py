"""CPU seconds and peak memory of this process. Only the standard library: both sides' environments import it.

Invariant: `peak_mib` speaks of the time since `begin`: the kernel's high-water mark is set back there (Linux).
"""

import re
import resource
from pathlib import Path

STATUS = Path("/proc/self/status")


def cpu_seconds() -> float:
    """Of all threads, and of children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


def resident_mib(field: str = "VmRSS") -> float:
    found = re.search(rf"^{field}:\s+(\d+) kB", STATUS.read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None, f"{STATUS} says no {field}"
    return int(found[1]) / 1024


class Usage:
    """From `begin` to `end`."""

    def __init__(self) -> None:
        self._cpu = 0.0
        self._resident = 0.0
        self.last: dict[str, float] = {}

    def begin(self) -> None:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._resident, self._cpu = resident_mib(), cpu_seconds()

    def end(self) -> dict[str, float]:
        """`above_mib`: the peak above what was resident at the beginning, with the model loaded."""
        peak = resident_mib("VmHWM")
        self.last = {
            "cpu_seconds": cpu_seconds() - self._cpu,
            "peak_mib": peak,
            "above_mib": peak - self._resident,
        }
        return self.last
