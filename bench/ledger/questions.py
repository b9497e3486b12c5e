"""Each file of examples/sql on a big world, by psql as a user runs it, its start included. The slowest of a few runs counts."""

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.gateway.children import ROOT
from bench.ledger.loading import load
from bench.ledger.traffic import Traffic
from bench.ledger.world import Plan
from slipstream.local.postgres import binary

QUERIES = sorted((ROOT / "examples" / "sql").glob("*.sql"))
_LIMIT_SECONDS = 60


class QuestionFailedError(Exception):
    """Psql could not answer a question."""


@dataclass(frozen=True)
class Answer:
    name: str
    seconds: float
    num_lines: int


def fill(url: str, num_exchanges: int, tell: Callable[[str], None]) -> float:
    """Loads the world; the seconds it took."""
    plan = Plan(num_exchanges, datetime.now(UTC))
    began = time.monotonic()
    load(url, plan, Traffic(plan), tell)
    return time.monotonic() - began


def ask_all(url: str, num_runs: int) -> list[Answer]:
    """Worst of the runs each; the first of them also reads what no one has read before."""
    return [max((_ask(url, path) for _ in range(num_runs)), key=lambda one: one.seconds) for path in QUERIES]


def _ask(url: str, path: Path) -> Answer:
    command = [
        str(binary("psql")),
        "--no-psqlrc",
        "--csv",
        "-v",
        "ON_ERROR_STOP=1",
        "-d",
        url,
        "-f",
        str(path),
    ]
    began = time.perf_counter()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_LIMIT_SECONDS, env=os.environ
        )
    except subprocess.TimeoutExpired:
        return Answer(path.stem, time.perf_counter() - began, 0)  # slower than any target
    if done.returncode:
        raise QuestionFailedError(f"{path.name} has no answer: {done.stderr.strip()}")
    return Answer(path.stem, time.perf_counter() - began, len(done.stdout.splitlines()))
