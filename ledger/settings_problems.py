"""What is wrong with settings, in words: each with its name, its value unless it is a secret, its origin, and the remedy."""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from ledger.errors import SettingsError
from ledger.masking import MASK, is_secret_name, masked
from ledger.settings_file import PREFIX, SettingsFile, key_of, read_settings_file
from ledger.settings_origin import file_origin, outside_origin, written

_LONGEST = 80
_KEYS_BEGIN_WITH = "sk-"  # ours, OpenAI's and Anthropic's, put where another setting belongs
_OWN_WORDS = "Value error, "


def refused(problems: Collection[str]) -> SettingsError:
    """All of them at once, each once."""
    return SettingsError("These settings cannot be used:\n" + "\n".join(dict.fromkeys(problems)))


def problems_of(error: ValidationError) -> list[str]:
    """One line for each wrong setting of a class that was read from its sources."""
    return [_problem(detail) for detail in error.errors(include_url=False)]


def unknown_key(key: str, known: Collection[str], place: str) -> str:
    """A key of the settings file that is no setting, with the nearest that is."""
    if key.upper().startswith(PREFIX) and (short := key_of(key.upper())) in known:
        return f"{place}: write {short} here; {key.upper()} is its name in the environment"
    near = get_close_matches(key.lower(), known, n=1, cutoff=0.6)
    remedy = f"did you mean {near[0]}?" if near else "docs/settings.md lists those that there are"
    return f"{place}: {key} is no setting: {remedy}"


def unknown_keys(file: SettingsFile, known: Collection[str]) -> list[str]:
    """Of those above the policies' tables."""
    return [unknown_key(key, known, file.place(key)) for key in file.content if key not in known]


def sentence(detail: Any) -> str:
    """Words of pydantic's, or our own."""
    return str(detail["msg"]).removeprefix(_OWN_WORDS).replace("Input should be", "it must be")


def shown(variable: str, value: Any) -> str:
    """A wrong value as it may be shown: no secret, and an address without what comes after its path."""
    text = written(value)
    if is_secret_name(variable) or text.startswith(_KEYS_BEGIN_WITH):
        return MASK
    text = masked(text, is_secret=False).partition("?")[0] if "://" in text else text
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _problem(detail: Any) -> str:
    if not detail["loc"]:
        return sentence(detail)
    variable = str(detail["loc"][0])
    if detail["type"] == "missing":
        return f"{variable} is not set: set it in the environment, or {key_of(variable)} in the settings file"
    origin = outside_origin(variable) or file_origin(variable, read_settings_file())
    where = f" ({origin[1]})" if origin else ""
    value = "" if isinstance(detail["input"], dict) else f" = {shown(variable, detail['input'])}"
    return f"{variable}{value}{where}: {sentence(detail)}"
