"""The settings file, which SLIPSTREAM_CONFIG names: TOML, a key for each setting and a table for each policy.

Its keys are the documented names in lower case without SLIPSTREAM_. Every key knows its line, for whoever explains it.
"""

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.errors import SettingsError

CONFIG = "SLIPSTREAM_CONFIG"
PREFIX = "SLIPSTREAM_"
Keys = tuple[str, ...]


def key_of(variable: str) -> str:
    """`SLIPSTREAM_STEP_GROUPS` is `step_groups`, `DATABASE_URL` is `database_url`."""
    return variable.removeprefix(PREFIX).lower()


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """Example: `("policies", "support", "lora_rank")` stands in `lines` with its number, counted from 1."""

    path: Path
    content: dict[str, Any]
    lines: dict[Keys, int]

    def place(self, *keys: str) -> str:
        """`slipstream.toml line 12`: where the key, or the first of its table, stands; without the line where it is not there."""
        found = [line for known, line in self.lines.items() if known[: len(keys)] == keys]
        return f"{self.path.name} line {min(found)}" if found else str(self.path.name)


def read_settings_file(name: str | None = None) -> SettingsFile | None:
    """The one that SLIPSTREAM_CONFIG names, unless another is named; None where there is none. Raises SettingsError."""
    if not (name := name or os.environ.get(CONFIG)):
        return None
    path = Path(name)
    try:
        written = path.read_text(encoding="utf-8")
        content = tomllib.loads(written)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{CONFIG} names {path}, which cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is no TOML: {error}") from error
    return SettingsFile(path, content, dict(_numbered(written)))


def plain(value: Any) -> Any:
    """A list of words as the environment writes it, separated by commas; everything else as it is."""
    is_words = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return ",".join(value) if is_words else value


def _numbered(written: str) -> Iterator[tuple[Keys, int]]:
    """Where each key stands. Within a string of several lines it may see keys that are none: nobody asks for those."""
    table: Keys = ()
    for number, line in enumerate(written.splitlines(), start=1):
        words = line.strip()
        if words.startswith("["):
            table = _keys(words.partition("#")[0])
            yield table, number
        elif "=" in words and not words.startswith("#"):
            yield (*table, *_keys(f"{words.partition('=')[0]} = 0")), number


def _keys(written: str) -> Keys:
    """`[policies.support]` and `policies.support = 0` are ("policies", "support")."""
    try:
        found: Any = tomllib.loads(written)
    except tomllib.TOMLDecodeError:
        return ()
    keys: list[str] = []
    while isinstance(found, dict) and found:
        keys.append(next(iter(found)))
        found = found[keys[-1]]
    return tuple(keys)
