"""bench/results/NAME.json: the machine, the figures, and the rows that they come from."""

import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average_before": os.getloadavg()[0],
        "at": time.strftime("%Y-%m-%d %H:%M"),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine()
    )


def write(
    found: Mapping[str, Any], figures: Mapping[str, float], rows: Sequence[Mapping[str, Any]], path: Path
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rounded = {name: round(value, 4) for name, value in figures.items()}
    whole = {"machine": found, "figures": rounded, "rows": rows}
    path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
