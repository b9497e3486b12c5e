"""What the plain answers share: the world as flat lists, and the arithmetic of SQL's aggregates."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bench.ledger.world import Exchange, Task, Trajectory, moment

Rows = list[tuple[Any, ...]]
Pair = tuple[Trajectory, Exchange]


def trajectories(tasks: Iterable[Task]) -> Iterator[Trajectory]:
    """Of users: nobody ever saw a shadow sibling."""
    return (trajectory for task in tasks for trajectory in task.trajectories if not trajectory.is_shadow)


def exchanges(tasks: Iterable[Task], since: int) -> list[Pair]:
    return [(t, e) for t in trajectories(tasks) for e in t.exchanges if e.id >> 80 >= since]


def by(key: Callable[..., Any], items: Iterable[Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for item in items:
        found[key(*item)].append(item)
    return found


def score(trajectory: Trajectory, since: int) -> float | None:
    """As the queries see it: of the trajectories that began in the time range, whenever they were judged."""
    return trajectory.reward() if trajectory.id >> 80 >= since else None


def percentile(values: list[float], share: float) -> float:
    """As percentile_cont: linear between the two nearest."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    return ordered[low] + (at - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def week(ms: int) -> str:
    day = moment(ms).date()
    return str(day.fromordinal(day.toordinal() - day.weekday()))


def short(text: str, num_characters: int) -> str:
    """As a table shows a text: on one line, its beginning."""
    return re.sub(r"\s+", " ", text)[:num_characters]
