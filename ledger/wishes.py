"""What may be asked of a step of sft or dpo: checked alike by the command, by POST /v1/train and by the worker.

Invariant: what is asked stands in `step_requests.arguments` as it was checked, so a step that goes on reads the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from types import MappingProxyType
from typing import Any

from ledger.errors import StepArgumentError
from ledger.vocabulary import SftSource, StepKind

TOP = 0.2
MOST_EPOCHS = 100
_OF_ALL_KINDS = ("even_if_paused",)
_SFT = ("from", "min_reward", "top", "since", "epochs")
_DPO = ("beta", "since", "epochs")


@dataclass(frozen=True, slots=True)
class SftWish:
    """Example: best answers, {"from": "best", "top": 0.1, "epochs": 2}: of the tenth with the highest rewards, twice."""

    source: SftSource
    min_reward: float | None = None
    top: float | None = None  # a share; of best, where no min_reward is said: TOP
    since: datetime | None = None
    epochs: int | None = None  # None: as the settings say


@dataclass(frozen=True, slots=True)
class DpoWish:
    """Example: {"beta": 0.05, "since": "2026-11-01"}."""

    beta: float | None = None
    since: datetime | None = None
    epochs: int | None = None


def own_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Without those that every request may have."""
    return {name: value for name, value in arguments.items() if name not in _OF_ALL_KINDS}


def sft_wish(arguments: Mapping[str, Any]) -> SftWish:
    """Raises StepArgumentError, which names the argument."""
    _check_names(arguments, _SFT, "sft")
    source = arguments.get("from")
    if source not in list(SftSource):
        raise StepArgumentError(f"'from' must be one of {', '.join(SftSource)}.", "from")
    min_reward = _number(arguments, "min_reward", -1e12, 1e12)
    top = _number(arguments, "top", 1e-6, 1.0)
    if source != SftSource.BEST and (min_reward, top) != (None, None):
        raise StepArgumentError("'min_reward' and 'top' go with 'from': 'best'.", "from")
    if source == SftSource.BEST and min_reward is None and top is None:
        top = TOP
    return SftWish(SftSource(source), min_reward, top, _moment(arguments), _epochs(arguments))


def dpo_wish(arguments: Mapping[str, Any]) -> DpoWish:
    """Raises StepArgumentError, which names the argument."""
    _check_names(arguments, _DPO, "dpo")
    return DpoWish(_number(arguments, "beta", 1e-6, 100.0), _moment(arguments), _epochs(arguments))


def _check_names(arguments: Mapping[str, Any], known: tuple[str, ...], kind: str) -> None:
    for name in arguments:
        if name not in known:
            raise StepArgumentError(f"'{name}' is unknown: {kind} takes {', '.join(known)}.", name)


def _number(arguments: Mapping[str, Any], name: str, lowest: float, highest: float) -> float | None:
    value = arguments.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not isfinite(value) or not lowest <= value <= highest:
        raise StepArgumentError(f"'{name}' must be a number from {lowest:g} to {highest:g}.", name)
    return float(value)


def _epochs(arguments: Mapping[str, Any]) -> int | None:
    value = arguments.get("epochs")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_EPOCHS:
        raise StepArgumentError(f"'epochs' must be a whole number from 1 to {MOST_EPOCHS}.", "epochs")
    return value


def _moment(arguments: Mapping[str, Any]) -> datetime | None:
    value = arguments.get("since")
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise StepArgumentError(
            "'since' must be a date or a moment such as 2026-11-01 or 2026-11-01T12:00:00Z.", "since"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


WISHES: Mapping[StepKind, Callable[[Mapping[str, Any]], object]] = MappingProxyType(
    {StepKind.SFT: sft_wish, StepKind.DPO: dpo_wish}
)
"""Kinds whose arguments are a wish, and what checks it."""
