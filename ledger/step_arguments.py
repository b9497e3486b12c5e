"""What may be said of a step that is asked for, by its kind: the names and types that the proxy and the command accept.

Invariant: what is not read is refused. Whether the values make sense says whoever begins the step.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from ledger.errors import StepArgumentError
from ledger.vocabulary import StepKind
from ledger.wishes import WISHES, own_arguments

MOST = 2**53
_EVERY: Mapping[str, type] = MappingProxyType({"even_if_paused": bool})
ARGUMENTS: Mapping[StepKind, Mapping[str, type]] = MappingProxyType(
    {
        StepKind.GRPO: {**_EVERY, "skip_grace": bool},
        StepKind.SFT: {
            **_EVERY,
            "from": str,
            "min_reward": float,
            "top": float,
            "since": str,
            "epochs": int,
        },
        StepKind.DPO: {**_EVERY, "beta": float, "since": str, "epochs": int},
    }
)
_WORDS: Mapping[type, str] = MappingProxyType(
    {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "a text",
        list: "a list of texts",
    }
)


def check_arguments(kind: StepKind, arguments: Mapping[str, Any]) -> None:
    """Raises StepArgumentError, which names the field."""
    known = ARGUMENTS[kind]
    for name, value in arguments.items():
        if name not in known:
            nearest = get_close_matches(name, known, n=1)
            hint = f"did you mean '{nearest[0]}'? There are" if nearest else "there are"
            raise StepArgumentError(
                f"'{name[:100]}' is nothing that a {kind} step takes: {hint} {', '.join(known)}.", name[:100]
            )
        if not _fits(value, known[name]):
            raise StepArgumentError(f"'{name}' must be {_WORDS[known[name]]}.", name)

    if kind in WISHES:  # the worker checks them again
        WISHES[kind](own_arguments(arguments))


def _fits(value: Any, wanted: type) -> bool:
    if isinstance(value, bool) or wanted is bool:
        return isinstance(value, bool) and wanted is bool
    if wanted is list:
        return isinstance(value, list) and all(_is_text(each) for each in value)
    if wanted is str:
        return _is_text(value)
    is_number = isinstance(value, int | float) if wanted is float else isinstance(value, wanted)
    return (
        is_number and abs(value) <= MOST
    )  # NaN is not; a number of 400 digits is asked nothing that takes a float


def _is_text(value: Any) -> bool:
    """That Postgres can hold as it is."""
    return isinstance(value, str) and not re.search("[\x00\ud800-\udfff]", value)
