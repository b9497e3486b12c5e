"""Starts `slipstream up` as a user would, and stops it at the end."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from examples.demo.display import Display

START_SECONDS = 900.0  # the first start prepares the model and pays for a cold disk
STOP_SECONDS = 60.0


class StackFailedError(Exception):
    """The stack ended before it was ready."""


@contextmanager
def running_stack(home: Path, settings: Mapping[str, str], display: Display) -> Iterator[str]:
    """Run the embedded stack in `home` while the block runs; yields its base URL. Raises StackFailedError."""
    home.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    log = home / "up.log"
    with log.open("wb") as output:
        command = [sys.executable, "-m", "slipstream", "up", "--home", str(home), "--port", str(port)]
        stack = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **settings}
        )
    try:
        _wait_until_ready(stack, f"http://127.0.0.1:{port}", log, display)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        stack.send_signal(signal.SIGINT)
        try:
            stack.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            stack.kill()


def _wait_until_ready(stack: "subprocess.Popen[bytes]", url: str, log: Path, display: Display) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if stack.poll() is not None:
            raise StackFailedError(
                f"`slipstream up` ended with {stack.returncode}:\n{log.read_text(errors='replace')[-2000:]}"
            )
        lines = log.read_text(errors="replace").strip().splitlines()
        display.say("starting the embedded stack", lines[-1].strip() if lines else "its first child")
        try:
            with urllib.request.urlopen(f"{url}/ready", timeout=5):  # noqa: S310 - our own loopback URL
                return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    raise StackFailedError(f"the stack was not ready within {START_SECONDS:.0f} s; its log is {log}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
