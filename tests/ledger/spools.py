"""Spools whose process died, and where their frames end."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledger.records import CallRecord
from ledger.spool.frames import END, scan, seed_of
from ledger.spool.spool import Spool, adopt_orphans


def segments(path: Path) -> list[Path]:
    return sorted(path.glob("*.segment"))


def end_of_frames(segment: Path) -> int:
    """Behind it stands END, and then what the file held before."""
    held = segment.read_bytes()
    end = max(found.end for found in scan(held, 0, len(held), seed_of(int(segment.stem))))
    assert held[end : end + len(END)] == END
    return end


def adopted(root: Path) -> list[CallRecord]:
    return [record for orphan in adopt_orphans(root) for record in orphan.records()]


def die_after(root: Path, finished: list[CallRecord], running: list[CallRecord]) -> Path:
    """Kill -9 of a process with these calls in its spool."""
    child = os.fork()
    if child == 0:
        spool = Spool.open(root)
        for record in finished + running:
            spool.accept(record)
        spool.append(finished)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    (path,) = [path for path in root.iterdir() if path.name != "corrupt"]
    return path


@contextmanager
def limited_file_size(num_bytes: int) -> Iterator[None]:
    """The disk is full: no file of this process may grow beyond."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
