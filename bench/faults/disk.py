"""A disk that can be filled: a small tmpfs; where mounting is not allowed, a limit to the size of the proxy's files."""

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from bench.faults.servers import Server

_TMPFS_MIB = 40  # two segments, two spares and some room
_LIMIT_BYTES = 64 << 10


class Disk(Protocol):
    name: str

    def fill(self, server: Server) -> None: ...
    def free(self, server: Server) -> None: ...


class Tmpfs:
    name = "tmpfs"

    def __init__(self, path: Path) -> None:
        self._filler = path / "filler"

    def fill(self, server: Server) -> None:  # noqa: ARG002 - the other kind of disk needs it
        with self._filler.open("wb") as filler:
            filler.truncate(0)
            left = shutil.disk_usage(self._filler.parent).free
            os.posix_fallocate(filler.fileno(), 0, left)

    def free(self, server: Server) -> None:  # noqa: ARG002 - see above
        self._filler.unlink()


class FileSizeLimit:
    """No file of the proxy may grow beyond some bytes: each write says EFBIG."""

    name = "RLIMIT_FSIZE"

    def fill(self, server: Server) -> None:
        self._limit(server, _LIMIT_BYTES)

    def free(self, server: Server) -> None:
        self._limit(server, resource.RLIM_INFINITY)

    def _limit(self, server: Server, num_bytes: int) -> None:
        for pid in server.tree.pids():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (num_bytes, resource.RLIM_INFINITY))


@contextmanager
def small_disk(path: Path) -> Iterator[Disk]:
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={_TMPFS_MIB}m,mode=755", "slipstream-bench", str(path)]
    try:
        is_mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        is_mounted = False
    if not is_mounted:
        yield FileSizeLimit()
        return
    try:
        yield Tmpfs(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=False)
