"""A real stack for the tests of the loop: `slipstream up` as a user starts it, in a home of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import psutil
import psycopg

ROOT = Path(__file__).parents[2]
START_SECONDS = 400
QUICK = {
    "SLIPSTREAM_STEP_GROUPS": "2",
    "SLIPSTREAM_STEP_MIN_TOKENS": "0",
    "SLIPSTREAM_MIN_SECONDS_BETWEEN_VERSIONS": "0",
    "SLIPSTREAM_GROUP_GRACE_SECONDS": "1",
    "SLIPSTREAM_TICK_SECONDS": "1",
    "SLIPSTREAM_LEASE_SECONDS": "6",
    "SLIPSTREAM_UPSTREAM_WAIT_SECONDS": "3",
    "SLIPSTREAM_VLLM_MAX_MODEL_LEN": "1024",
    "SLIPSTREAM_TRAINER_THREADS": "1",
    "SLIPSTREAM_VLLM_ARGUMENTS": "--enable-auto-tool-choice --tool-call-parser hermes",  # for the corpus
}


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """The first true value of `condition`; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.2)
    return value


class Stack:
    """One home and, while it is up, the process of `slipstream up`."""

    def __init__(self, home: Path, model: Path) -> None:
        self.home, self.model = home, model
        own = {"SLIPSTREAM_HOME": str(home), "PYTHONPATH": str(ROOT), **QUICK}
        foreign = (
            "DATABASE_URL",
            "REDIS_URL",
            "SLIPSTREAM_UPSTREAM_URLS",
            "SLIPSTREAM_BASE_MODEL",
            "OMP_NUM_THREADS",
        )
        self.environment = {k: v for k, v in os.environ.items() if k not in foreign} | own
        self.lines: list[str] = []

    def start(self, *arguments: str) -> float:
        """Seconds until it said that it is up."""
        begun_at, self.lines = time.monotonic(), []
        command = [sys.executable, "-m", "slipstream", "up", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        threading.Thread(target=self._read, daemon=True).start()
        wait_for(lambda: self.is_up() or self.process.poll() is not None, START_SECONDS, "the stack is up")
        assert self.process.poll() is None, "\n".join(self.lines)
        return time.monotonic() - begun_at

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip())

    def is_up(self) -> bool:
        return any("Slipstream is up" in line for line in self.lines)

    def interrupt(self) -> int:
        """Ctrl-C; the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(90)

    @property
    def run_file(self) -> dict[str, Any]:
        return dict(json.loads((self.home / "run.json").read_text()))

    @property
    def url(self) -> str:
        return str(self.run_file["url"])

    @property
    def upstream_url(self) -> str:
        return str(self.run_file["environment"]["SLIPSTREAM_UPSTREAM_URLS"])

    def client(self) -> openai.OpenAI:
        """An ordinary client: it knows the base address and nothing else."""
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="any", max_retries=0, timeout=180)

    def slipstream(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "slipstream", *arguments]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=240, check=False
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.run_file["environment"]["DATABASE_URL"]) as connection:
            return connection.execute(query).fetchall()

    def live_version(self) -> int:
        return int(self.rows("SELECT live_version FROM policies WHERE name = 'default'")[0][0])

    def child(self, name: str) -> psutil.Process:
        """The process that the leash of this child started."""
        leash, _ = self.run_file["leashes"][name]
        return psutil.Process(leash).children()[0]

    def everything(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)
