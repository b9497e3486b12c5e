"""Programs that the bench compares with or uses, each in a virtual environment of its own below build/bench.

Their pins never meet ours. An environment is made once, and anew when what it should hold changes.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.gateway.children import ROOT, ChildFailedError

ENVIRONMENTS = ROOT / "build" / "bench"


def installed(name: str, requirements: Sequence[str], report: Callable[[str], None]) -> Path:
    """The environment's bin directory. Raises ChildFailedError with pip's last lines."""
    directory = ENVIRONMENTS / name
    ready = directory / "ready"
    wanted = "\n".join(requirements)
    if not (ready.exists() and ready.read_text(encoding="utf-8") == wanted):
        report(f"installing {' '.join(requirements)} into {directory}, once")
        shutil.rmtree(directory, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(directory)])
        _run([str(directory / "bin" / "python"), "-m", "pip", "install", "-q", "--no-input", *requirements])
        ready.write_text(wanted, encoding="utf-8")
    return directory / "bin"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChildFailedError(f"{' '.join(command[1:4])} failed:\n{done.stderr[-2000:]}")
