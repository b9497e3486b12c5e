"""Memory of this process and of its device, in MiB: what was used, what is left, what can be given back."""

import ctypes
import re
import resource
import sys
from contextlib import suppress
from pathlib import Path

import psutil

MIB = 1 << 20
STATUS = Path("/proc/self/status")
# Limit, usage, and what that is made of; lines of the last that are files: of version 1 those of the children included.
CGROUPS = (
    ("memory.max", "memory.current", "memory.stat", ("active_file", "inactive_file")),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        ("total_active_file", "total_inactive_file"),
    ),
)


def begin_peak() -> None:
    """From here on `peak_memory_mib` counts, where the system lets us (Linux, CUDA)."""
    import torch

    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.reset_peak_memory_stats()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory_mib() -> int:
    """Since `begin_peak`: on the GPU where there is one in use, else resident."""
    import torch

    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return torch.cuda.max_memory_allocated() // MIB
    with suppress(OSError):
        found = re.search(r"^VmHWM:\s+(\d+) kB", STATUS.read_text(encoding="ascii"), re.MULTILINE)
        if found is not None:
            return int(found[1]) // 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // MIB


def is_gpu(device: str) -> bool:
    """Of SLIPSTREAM_TRAINER_DEVICE."""
    import torch

    return torch.cuda.is_available() if device == "auto" else device.startswith("cuda")


def available_mib(device: str, cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """What this process may come to use: on a GPU what is free there, else within the container's limit and free RAM."""
    if is_gpu(device):
        import torch

        return int(torch.cuda.mem_get_info()[0]) // MIB
    own = int(psutil.Process().memory_info().rss)
    free = int(psutil.virtual_memory().available)
    return (min([free, *_left_of_limits(cgroup)]) + own) // MIB


def _left_of_limits(cgroup: Path) -> list[int]:
    found = []
    for limit, usage, details, files in CGROUPS:
        try:
            left = int((cgroup / limit).read_text()) - int((cgroup / usage).read_text())
        except (OSError, ValueError):  # no such file, or "max"
            continue
        found.append(left + _cache(cgroup / details, files))
    return found


def _cache(details: Path, files: tuple[str, ...]) -> int:
    """Files that were read count as used, the base model's own among them; the kernel gives them up when asked."""
    try:
        lines = [line.split() for line in details.read_text().splitlines()]
    except OSError:
        return 0
    return sum(int(line[1]) for line in lines if line and line[0] in files)


def give_memory_back() -> None:
    """What a step has freed goes back to the system: glibc keeps gigabytes otherwise while the worker waits."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
