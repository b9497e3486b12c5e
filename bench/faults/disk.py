"""A disk that can be filled: a small tmpfs; where mounting is not allowed, a limit to the size of the proxy's files."""

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import RawIOBase
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
        with self._filler.open("wb", buffering=0) as filler:
            for block in (1 << 16, 1 << 12):  # the proxy takes what it can meanwhile
                _write_until_full(filler, bytes(block))

    def free(self, server: Server) -> None:  # noqa: ARG002 - see above
        self._filler.unlink()


def _write_until_full(file: RawIOBase, block: bytes) -> None:
    with suppress(OSError):
        while file.write(block):
            pass


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
