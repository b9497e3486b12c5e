"""`slipstream audit --json`, as an operator runs it: a process of its own, judged by its exit code, too."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gateway.children import ROOT, environment, python

_LIMIT_SECONDS = 60


class AuditFailedError(Exception):
    """`slipstream audit` gave no answer."""


@dataclass(frozen=True)
class Audited:
    exit_code: int
    told: dict[str, Any]

    @property
    def num_open(self) -> int:
        return int(self.told["running"] + self.told["waiting"])

    @property
    def num_lost(self) -> int:
        return int(self.told["lost"] + self.told["gone"] + self.told["rejected"])


def audit(url: str, spool: Path) -> Audited:
    """Raises AuditFailedError where it did not get as far as an answer."""
    command = python("-m", "slipstream", "audit", "--json", "--spool", str(spool))
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment(DATABASE_URL=url), capture_output=True, text=True, check=False,
            timeout=_LIMIT_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise AuditFailedError(f"slipstream audit did not end within {_LIMIT_SECONDS} s") from error
    if not done.stdout.startswith("{"):
        raise AuditFailedError(f"slipstream audit failed: {done.stderr[-2000:]}")
    return Audited(done.returncode, json.loads(done.stdout))
