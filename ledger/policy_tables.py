"""What is said of single policies: `[policies.NAME]` of the settings file, or SLIPSTREAM_POLICIES as JSON.

Example: {"support": {"step_groups": 4, "lora_rank": 16}}. What a table may say is the trainer's to know (trainer.learners).
"""

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator
from pydantic_settings import NoDecode

from ledger.errors import LedgerError
from ledger.policies import check_name

_FORM = 'say {"NAME": {"setting": value}}, or write [policies.NAME] tables in the settings file'


def _parsed(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"this is no JSON: {_FORM}") from error


def _named(tables: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    for name in tables:
        try:
            check_name(name)
        except LedgerError as error:
            raise ValueError(str(error)) from error
    return tables


PolicyTables = Annotated[
    dict[str, dict[str, Any]],
    NoDecode,
    BeforeValidator(_parsed),
    AfterValidator(_named),
]


def base_of(tables: dict[str, dict[str, Any]], name: str, base_model: str) -> str:
    """The base model of this policy: its own, or the process'."""
    return str(tables.get(name, {}).get("base_model", base_model))


def bases(default: str, base_model: str, tables: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Every policy that the settings name, the default one first, with its base model."""
    return {name: base_of(tables, name, base_model) for name in (default, *tables)}
