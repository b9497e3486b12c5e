"""The folder that holds everything a local stack keeps, and the lock that lets only one stack run in it.

`run.json` describes the running stack (addresses, process ids; mode 0600: it holds passwords). It is written whole or
not at all, and trusted only while the process it names is alive.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from slipstream.errors import UsageError


def write_private(path: Path, value: Any) -> None:
    """Write JSON aside with mode 0600, then rename."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    aside.rename(path)


def read_json(path: Path) -> dict[str, Any]:
    """The object in the file; empty when there is none or a crash cut it."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def process_mark(pid: int) -> list[float]:
    """A process id with its start time: together they never name another process."""
    return [pid, psutil.Process(pid).create_time()]


def marked_process(mark: Any) -> psutil.Process | None:
    """The living process that a mark names, or None."""
    try:
        process = psutil.Process(int(mark[0]))
        is_same = abs(process.create_time() - mark[1]) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, TypeError, IndexError, ValueError):
        return None
    return process if is_same else None


def unusable(root: Path, error: OSError) -> str:
    return f"{root} cannot be used: {error.strerror}. Choose another with --home."


@dataclass(frozen=True)
class Home:
    """Paths below one root. Nothing is created by looking at it."""

    root: Path

    @classmethod
    def at(cls, path: Path) -> "Home":
        return cls(path.expanduser().absolute())

    def __truediv__(self, name: str) -> Path:
        return self.root / name

    def log(self, name: str) -> Path:
        return self.root / "logs" / f"{name}.log"

    def create(self) -> None:
        try:
            for name in ("logs", "models", "adapters", "checkpoints", "spool", "valkey"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(unusable(self.root, error)) from error

    def password(self, name: str) -> str:
        """A random password that stays the same for this home."""
        path = self.root / "secrets.json"
        values = read_json(path)
        if name not in values:
            write_private(path, values | {name: secrets.token_urlsafe(24)})
        return str(read_json(path)[name])

    def remember(self, **values: Any) -> None:
        write_private(self.root / "state.json", read_json(self.root / "state.json") | values)

    def remembered(self, name: str) -> Any:
        return read_json(self.root / "state.json").get(name)

    def running(self) -> dict[str, Any]:
        """run.json of a stack that runs now; empty otherwise."""
        run = read_json(self.root / "run.json")
        return run if marked_process(run.get("supervisor")) else {}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the home for this process. Raises UsageError where another one does."""
        try:
            descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(unusable(self.root, error)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise UsageError(self.held_message()) from error
        try:
            yield
        finally:
            os.close(descriptor)

    def held_message(self) -> str:
        pid = (self.running().get("supervisor") or ["unknown"])[0]
        return (
            f"A stack already runs in {self.root} (process {pid}). "
            "Stop it with `slipstream down`, or choose another folder with --home."
        )
