"""`slipstream audit --json`, as an operator runs it: a process of its own, judged by its exit code, too."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gateway.children import ROOT, environment, python


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
    """Raises RuntimeError where it did not get as far as an answer."""
    command = python("-m", "slipstream", "audit", "--json", "--spool", str(spool))
    done = subprocess.run(
        command, cwd=ROOT, env=environment(DATABASE_URL=url), capture_output=True, text=True, check=False
    )
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"slipstream audit failed: {done.stderr[-2000:]}")
    return Audited(done.returncode, json.loads(done.stdout))
