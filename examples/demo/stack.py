"""Starts `slipstream up` as a user would, and stops it at the end: on a leash, so that it never outlives the demo."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from examples.demo.display import Display
from slipstream.http import ask_http
from slipstream.local import leash
from slipstream.local.home import Home
from slipstream.local.ports import free_ports
from slipstream.local.recovery import recover

START_SECONDS = 900.0  # the first start prepares the model and pays for a cold disk
STOP_SECONDS = 60
LEASH = (sys.executable, "-I", "-S", str(Path(leash.__file__)))  # -I -S: it starts at once


class StackFailedError(Exception):
    """The stack ended before it was ready."""


def forget_last_run(root: Path, kept: frozenset[str] = frozenset()) -> None:
    """Each run starts from version 0: the prepared model is kept, and what `kept` names. Raises UsageError if the
    last run is still up.
    """
    home = Home.at(root)
    home.create()
    with home.locked():
        recover(home)
        for path in home.root.iterdir():
            if path.name in {"models", "lock", *kept}:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


@contextmanager
def running_stack(home: Path, settings: Mapping[str, str], display: Display) -> Iterator[str]:
    """Run the embedded stack in `home` while the block runs; yields its base URL. Raises StackFailedError."""
    home.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    log = home / "up.log"
    command = [sys.executable, "-m", "slipstream", "up", "--home", str(home), "--port", str(port)]
    order, leash_end = os.pipe()
    with log.open("wb") as output:
        stack = subprocess.Popen(
            [*LEASH, str(order), str(int(signal.SIGINT)), str(STOP_SECONDS), "-", "--", *command],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **settings},
            pass_fds=(order,),
        )
    os.close(order)
    try:
        _wait_until_ready(stack, f"http://127.0.0.1:{port}", log, display)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        display.say("stopping the stack")
        os.close(leash_end)  # the leash interrupts the stack, and kills what is left after STOP_SECONDS
        stack.wait()


def _wait_until_ready(stack: "subprocess.Popen[bytes]", url: str, log: Path, display: Display) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if stack.poll() is not None:
            raise StackFailedError(
                f"`slipstream up` ended with {stack.returncode}:\n{log.read_text(errors='replace')[-2000:]}"
            )
        display.say("starting the embedded stack", _last_news(log))
        if not ask_http(f"{url}/ready", seconds=5):
            return
        time.sleep(1)
    raise StackFailedError(f"the stack was not ready within {START_SECONDS:.0f} s; its log is {log}")


def _last_news(log: Path) -> str:
    """What `slipstream up` said last, such as `starting model (35 s, 70 %: copying the weights)`, without its clock."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].partition(" ")[2] if lines else ""
