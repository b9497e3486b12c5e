"""One SDK in a process of its own: a line of JSON says what to do, a line of JSON says what the SDK made of it."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.sdk.install import HERE, NODE_HOME, OPENAI_1, node

ANSWER_SECONDS = 60


class Worker:
    def __init__(self, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        self.name = name
        proxies = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
        self.process = subprocess.Popen(
            command, env={**proxies, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, do: str, base_url: str, **given: Any) -> Any:
        """What the SDK saw; the SDK's own exception as {"error": {"kinds", "status", …}}."""
        assert self.process.stdin
        assert self.process.stdout
        watchdog = threading.Timer(ANSWER_SECONDS, self.process.kill)
        watchdog.start()
        try:
            self.process.stdin.write(json.dumps({"do": do, "base_url": base_url, **given}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        finally:
            watchdog.cancel()
        assert line, f"{self.name} ended in the middle of {do}"
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(10)


def commands() -> dict[str, tuple[list[str], dict[str, str]]]:
    python = str(Path(sys.executable))
    return {
        "openai-python": ([python, str(HERE / "openai_python.py")], {}),
        "openai-python-1": ([python, str(HERE / "openai_python.py")], {"PYTHONPATH": str(OPENAI_1)}),
        "openai-node": ([str(node()), str(HERE / "node" / "openai.mjs")], {"SDK_HOME": str(NODE_HOME)}),
        "anthropic-python": ([python, str(HERE / "anthropic_python.py")], {}),
    }


@contextmanager
def running_worker(name: str) -> Iterator[Worker]:
    command, environment = commands()[name]
    worker = Worker(name, command, environment)
    try:
        yield worker
    finally:
        worker.close()
