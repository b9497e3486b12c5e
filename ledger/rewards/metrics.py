"""Metrics: what the policies of a project accept and count, beside `reward`.

A declaration holds for every judgement, those from before it included: v1.rewards reads it anew each time.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, delete, select, text, update
from sqlalchemy.dialects.postgresql import insert

from ledger.direct import Question, Rows
from ledger.errors import LedgerError
from ledger.rewards.counting import WORDS_METRICS
from ledger.rewards.ranges import ANYTHING, Accepted, Scale, accepted
from ledger.tables import metrics, policies, projects
from ledger.vocabulary import COMPARISON_METRIC, REWARD_METRIC, Combination, Direction

LARGEST_BOUND = 1e100
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-6, 1e6
_MOST_LETTERS = 256
_RULES = text("""
    SELECT p.name, p.id, o.id AS policy_id, o.reward_min, o.reward_max, m.name AS metric, m.smallest, m.largest, m.weight
    FROM projects AS p LEFT JOIN policies AS o ON o.project_id = p.id LEFT JOIN metrics AS m ON m.policy_id = o.id
    WHERE p.name = ANY (CAST(:names AS text[]))
""")
_SCALE = text("""
    SELECT smallest, largest, direction, weight FROM v1.metrics
    WHERE project = :project AND policy = :policy AND metric = :metric
""")
_METRICS = text("SELECT * FROM v1.metrics ORDER BY project, policy, metric")


@dataclass(frozen=True, slots=True)
class ProjectRules:
    """What each policy of a project takes. Example: ranges {policy: (-1.0, 1.0)}, declared {(policy, "stars"): …}."""

    id: UUID
    ranges: dict[UUID, tuple[float, float]] = field(default_factory=dict)
    declared: dict[tuple[UUID, str], Accepted] = field(default_factory=dict)

    def accepted(self, policy_id: UUID | None, metric: str) -> Accepted:
        """None: what is early has to fit some policy, and is asked again by v1.rewards when its row is there."""
        if policy_id is not None:
            smallest, largest = self.ranges.get(policy_id, (None, None))
            return accepted(metric, smallest, largest, self.declared.get((policy_id, metric)))
        found = [self.accepted(id_, metric) for id_ in self.ranges]
        bounds = [
            (one.smallest, one.largest)
            for one in found
            if one.smallest is not None and one.largest is not None
        ]
        if not found or len(bounds) < len(found):
            return ANYTHING
        weight = max(one.weight or 0.0 for one in found)
        return Accepted(min(low for low, _ in bounds), max(high for _, high in bounds), weight)


def rules_question(project_names: Iterable[str]) -> Question:
    return _RULES, {"names": list(project_names)}


def rules_of(answer: Rows) -> dict[str, ProjectRules]:
    """Of the projects that there are, by name."""
    found: dict[str, ProjectRules] = {}
    for row in answer:
        rules = found.setdefault(row.name, ProjectRules(row.id))
        if row.policy_id is not None:
            rules.ranges[row.policy_id] = row.reward_min, row.reward_max
        if row.metric is not None:
            rules.declared[row.policy_id, row.metric] = Accepted(row.smallest, row.largest, row.weight)
    return found


@dataclass(frozen=True, slots=True)
class Metric:
    """Example: Metric("latency", 0.0, 30.0, Direction.LOWER, 0.5): 0 s is worth reward_max, 30 s reward_min."""

    name: str
    smallest: float
    largest: float
    direction: Direction = Direction.HIGHER
    weight: float = 1.0


def list_metrics(connection: Connection) -> list[dict[str, Any]]:
    """Every metric that counts, of every policy: rows of v1.metrics."""
    return [row._asdict() for row in connection.execute(_METRICS)]


def reward_scale(connection: Connection, project: str, policy: str) -> Scale:
    """What a program that posts `reward` to this policy has to say it in."""
    row = connection.execute(_SCALE, {"project": project, "policy": policy, "metric": REWARD_METRIC}).one()
    return Scale(row.smallest, row.largest, Direction(row.direction), row.weight)


def declare_metric(connection: Connection, project: str, policy: str, metric: Metric) -> None:
    """From now on it counts so, also what was posted before. Raises LedgerError."""
    _check(metric)
    values = {name: getattr(metric, name) for name in ("smallest", "largest", "direction", "weight")}
    wanted = insert(metrics).values(
        policy_id=_policy_id(connection, project, policy), name=metric.name, **values
    )
    connection.execute(wanted.on_conflict_do_update(index_elements=["policy_id", "name"], set_=values))


def drop_metric(connection: Connection, project: str, policy: str, name: str) -> None:
    """Its judgements stay, and do not count any more. Raises LedgerError where it is not declared."""
    of = metrics.c
    found = delete(metrics).where(of.policy_id == _policy_id(connection, project, policy), of.name == name)
    if connection.execute(found).rowcount != 1:
        raise LedgerError(f"policy {policy} of project {project} does not declare a metric {name!r}")


def set_combination(connection: Connection, project: str, policy: str, combination: Combination) -> None:
    """How what counts makes one reward, from now on and of everything. Raises LedgerError."""
    id_ = _policy_id(connection, project, policy)
    connection.execute(update(policies).where(policies.c.id == id_).values(combination=combination))


def _policy_id(connection: Connection, project: str, policy: str) -> UUID:
    found: UUID | None = connection.scalar(
        select(policies.c.id)
        .join_from(policies, projects)
        .where(projects.c.name == project, policies.c.name == policy)
    )
    if found is None:
        raise LedgerError(f"there is no policy {policy} of project {project}")
    return found


def _check(metric: Metric) -> None:
    name, low, high = metric.name, metric.smallest, metric.largest
    if not name or len(name) > _MOST_LETTERS or not name.isprintable():
        raise LedgerError(f"a metric's name has 1 to {_MOST_LETTERS} printable characters")
    if name in WORDS_METRICS:
        raise LedgerError(f"{name} has words and no value: it cannot count")
    if not (math.isfinite(low) and math.isfinite(high) and low < high and max(-low, high) <= LARGEST_BOUND):
        raise LedgerError(
            f"the range {low} to {high} of {name!r} is none: two numbers, the smaller one first, at most {LARGEST_BOUND:g}"
        )
    if name == COMPARISON_METRIC and (low, high, metric.direction) != (0.0, 1.0, Direction.HIGHER):
        raise LedgerError("a comparison is 0 or 1, higher is better: only its weight can be declared")
    if not (metric.weight == 0 or SMALLEST_WEIGHT <= metric.weight <= LARGEST_WEIGHT):
        raise LedgerError(
            f"the weight of {name!r} is 0 (it does not count) or {SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g}"
        )
