"""What a check found: a fact in words, how bad it is, and the remedy. Never a password."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    GOOD = "good"
    NOTE = "note"  # worth knowing; nothing fails for it
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """`figures` are for programs: numbers that the detail tells in words."""

    name: str
    level: Level
    detail: str
    remedy: str = ""
    figures: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def good(name: str, detail: str, **figures: Any) -> Finding:
    return Finding(name, Level.GOOD, detail, figures=figures)


def note(name: str, detail: str, remedy: str = "", **figures: Any) -> Finding:
    return Finding(name, Level.NOTE, detail, remedy, figures)


def wrong(name: str, detail: str, remedy: str, **figures: Any) -> Finding:
    return Finding(name, Level.WRONG, detail, remedy, figures)
