"""How far a sink came with one line of versions: a small file beside what it wrote, so that both go away together.

Invariant: it moves only after the figures were handed over. One process at a time holds it.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Position:
    """`version`: the last one that was written; 0 = none yet."""

    def __init__(self, path: Path, version: int) -> None:
        self._path = path
        self.version = version

    def move(self, version: int) -> None:
        """All or nothing, whenever the process dies."""
        aside = self._path.with_suffix(".new")
        aside.write_text(f"{version}\n", encoding="utf-8")
        aside.replace(self._path)
        self.version = version


@contextmanager
def held_position(folder: Path, run: str) -> Iterator[Position | None]:
    """None where another process holds it. A file that cannot be read is as if nothing had been written."""
    places = folder / ".slipstream"
    places.mkdir(parents=True, exist_ok=True)
    with (places / f"{run}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        path = places / f"{run}.version"
        yield Position(path, _read(path))


def _read(path: Path) -> int:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return 0
