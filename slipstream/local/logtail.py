"""Log files of the children: one per child, rotated at a start when big, read from their end."""

import re
from pathlib import Path

MAX_BYTES = 20 * 2**20
TAIL_BYTES = 64 * 2**10
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def rotate(log: Path) -> int:
    """Keep one older file beside a log that has grown big; returns where the next line will start."""
    if not log.exists():
        return 0
    if log.stat().st_size < MAX_BYTES:
        return log.stat().st_size
    log.rename(log.with_name(log.name + ".1"))
    return 0


def tail(log: Path, count: int, start: int = 0) -> list[str]:
    """The last `count` lines that are not blank, without colours, not before byte `start`."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(start, size - TAIL_BYTES) if size >= start else 0)
        text = file.read().decode("utf-8", "replace")
    lines = [_COLOURS.sub("", line).rstrip() for line in re.split(r"[\r\n]+", text)]
    return [line for line in lines if line.strip()][-count:]
