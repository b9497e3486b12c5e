"""A wall clock that jumps under a running worker: a few lines of C that are loaded before libc.

Only processes that were started with `preloaded` can jump, each for itself; the machine's clock is never touched.
"""

import ctypes
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")
_OFFSET = "slipstream_clock_offset"


def compiled(directory: Path) -> Path:
    """The shim as a library. It needs a C compiler, as the set-up does."""
    library = directory / "clock.so"
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    return library


@contextmanager
def preloaded(library: Path) -> Iterator[None]:
    """What is started meanwhile has a clock that can jump."""
    before = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = f"{library}:{before}" if before else str(library)
    try:
        yield
    finally:
        os.environ.pop("LD_PRELOAD")
        if before:
            os.environ["LD_PRELOAD"] = before


def jump(seconds: int) -> None:
    """From now on this process' wall clock is so much ahead, or behind. Raises RuntimeError if it did not move."""
    before = time.time()
    ctypes.c_long.in_dll(ctypes.CDLL(None), _OFFSET).value += seconds
    if abs(time.time() - before - seconds) > 1:
        raise RuntimeError("the clock did not jump: was the process started with the shim?")
