"""From rows to figures to verdicts. Pure.

A row is what one contender did in one round of one measure: {"measure", "contender", "round", "values": {name: number}}.
Contenders of one round ran right after each other, so ratios and differences are taken within a round, and of those
the median over rounds.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import sub, truediv
from statistics import median

FLOOR, TODAY, OURS, NOTHING = "nginx", "litellm", "slipstream", "direct"


@dataclass(frozen=True)
class Row:
    measure: str
    contender: str
    round: int
    values: dict[str, float]


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` of all do not exceed: 2 for [1, 2, 3, 4] and 50."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def figures_of(rows: Iterable[Row]) -> dict[str, float]:
    """{"MEASURE_CONTENDER_VALUE": median over rounds}, and what is compared: see `compared`."""
    rows = list(rows)
    figures = {}
    for measure, contender in dict.fromkeys((row.measure, row.contender) for row in rows):
        mine = [row.values for row in rows if (row.measure, row.contender) == (measure, contender)]
        for value in mine[0]:
            figures[f"{measure}_{contender}_{value}"] = median(values[value] for values in mine)
    return figures | compared(rows)


def compared(rows: list[Row]) -> dict[str, float]:
    """Every comparison whose both sides were measured."""
    found: dict[str, float | None] = {}
    for measure in ("unstreamed", "saturated", "chunk"):
        cpu = {name: by_round(rows, measure, name) for name in (OURS, FLOOR, TODAY)}
        found[f"{measure}_cpu_over_nginx"] = over_rounds(truediv, cpu[OURS], cpu[FLOOR])
        found[f"{measure}_cpu_litellm_over_ours"] = over_rounds(truediv, cpu[TODAY], cpu[OURS])
    for measure in ("latency", "first_token"):
        found |= _added(rows, measure)
    for name in (OURS, FLOOR):
        much, little = (by_round(rows, f"prompt_{size}", name) for size in ("150kb", "2kb"))
        found[f"long_prompt_{name}_ratio"] = over_rounds(truediv, much, little)
    two, one = (by_round(rows, "workers", f"{OURS}-{n}", "per_second") for n in (2, 1))
    found["workers_2_over_1"] = over_rounds(truediv, two, one)
    ours = [row.values for row in rows if row.contender.startswith(OURS)]
    found["num_failed"] = sum(values.get("num_failed", 0) for values in ours) if ours else None
    return {name: value for name, value in found.items() if value is not None}


def _added(rows: list[Row], measure: str) -> dict[str, float | None]:
    """Milliseconds above direct, and how many times more LiteLLM adds."""
    found = {}
    for value in ("median_ms", "p99_ms"):
        direct = by_round(rows, measure, NOTHING, value)
        for name in (OURS, FLOOR, TODAY):
            theirs = by_round(rows, measure, name, value)
            found[f"{measure}_added_{name}_{value}"] = over_rounds(sub, theirs, direct)
    ours, theirs_ms = (found[f"{measure}_added_{name}_median_ms"] for name in (OURS, TODAY))
    return found | {f"{measure}_added_litellm_over_ours": ratio(theirs_ms, ours)}


def by_round(rows: list[Row], measure: str, contender: str, value: str = "cpu_us") -> dict[int, float]:
    wanted = (measure, contender)
    return {row.round: row.values[value] for row in rows if (row.measure, row.contender) == wanted}


def over_rounds(
    combine: Callable[[float, float], float], one: dict[int, float], other: dict[int, float]
) -> float | None:
    """The median of `combine(one, other)` over the rounds that have both; None without any."""
    both = [combine(value, other[round_]) for round_, value in one.items() if round_ in other]
    return median(both) if both else None


def ratio(above: float | None, below: float | None) -> float | None:
    """Nothing added (or less, in the noise) counts as a hundredth of a millisecond."""
    return None if above is None or below is None else above / max(below, 0.01)
