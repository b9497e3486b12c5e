"""What a crash left in a home is ended and removed before a new stack starts there. The home's lock is held."""

import contextlib
import time

import psutil

from slipstream.local.home import Home, marked_process, read_json

LEASH_SECONDS = 25  # the longest grace and the kill after it
MARK = "SLIPSTREAM_STACK"


def recover(home: Home) -> list[str]:
    """Wait for leashes of a dead supervisor, then end what they could not. Returns what was done, in words."""
    run = read_json(home / "run.json")
    leashes = [p for p in map(marked_process, run.get("leashes", {}).values()) if p]
    orphans = [process for leash in leashes for process in descendants(leash)] + marked(home)
    _, alive = psutil.wait_procs(leashes, timeout=LEASH_SECONDS)
    alive += [process for process in orphans if process.is_running()]
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=5)
    (home / "run.json").unlink(missing_ok=True)
    if not leashes and not alive:
        return []
    return [
        f"The last stack did not stop cleanly: {len(leashes)} children were still ending, {len(alive)} were killed"
    ]


def descendants(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return list(process.children(recursive=True))
    return []


def marked(home: Home) -> list[psutil.Process]:
    """Processes whose environment says that they belong to this home."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == str(home.root):
                found.append(process)
    return found


def wait_free(home: Home, seconds: float) -> bool:
    """Whether the stack of this home is gone within `seconds`."""
    deadline = time.monotonic() + seconds
    while home.running() and time.monotonic() < deadline:
        time.sleep(0.1)
    return not home.running()
