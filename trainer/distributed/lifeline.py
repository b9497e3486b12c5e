"""A rank does not outlive whoever needs it: the worker holds the other end of its standard input, torchrun is its parent."""

import ctypes
import os
import shutil
import signal
import sys
from pathlib import Path
from threading import Thread

_PR_SET_PDEATHSIG = 1


def hold(room: Path, is_first: bool) -> None:
    """From now on this process ends with the worker, or with torchrun. The first rank then removes the room and ends
    torchrun, which would otherwise wait in a meeting place that is gone.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    Thread(target=_await_end, args=(room, is_first), daemon=True).start()


def _await_end(room: Path, is_first: bool) -> None:
    while os.read(0, 1):  # nobody writes: it returns when the last other end is closed
        pass
    torchrun = os.getppid()
    if is_first:
        shutil.rmtree(room, ignore_errors=True)
        if torchrun > 1:
            os.kill(torchrun, signal.SIGKILL)
    os._exit(0)
