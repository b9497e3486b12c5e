"""Where the value of a setting comes from: the environment, a file that `NAME_FILE` names, or the settings file."""

import os
from typing import Any

from ledger.masking import MASK
from ledger.settings_file import SettingsFile, key_of, plain

ENVIRONMENT = "environment"


def outside_origin(variable: str) -> tuple[str, str] | None:
    """Value and origin, where this process' environment names one; what a secret file holds is not read here."""
    if value := os.environ.get(variable):
        return value, ENVIRONMENT
    path = os.environ.get(f"{variable}_FILE")
    return (MASK, f"file {path}") if path else None


def file_origin(variable: str, file: SettingsFile | None) -> tuple[str, str] | None:
    """Value and origin, where the settings file names one."""
    key = key_of(variable)
    if file is None or key not in file.content:
        return None
    return written(file.content[key]), file.place(key)


def written(value: Any) -> str:
    """A value as the environment would say it."""
    value = plain(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
