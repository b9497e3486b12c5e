"""What a round must have come to, counted from Postgres and the disk: one version a step, no gap, the same bytes."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

from bench.crashes.replica import SmallReplica
from trainer.adapter_files import WEIGHTS
from trainer.checkpoint import OPTIMIZER

Digests = Mapping[str, tuple[str, str]]  # of adapter and optimizer, by directory


@dataclass(frozen=True)
class Expected:
    """`attempts`: of each published step; None: any. `reason`: words that a failed or skipped step's reason holds."""

    num_versions: int
    num_failed: int = 0
    num_skipped: int = 0
    attempts: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class Account:
    """`faults`: what is wrong, a sentence each."""

    num_versions: int
    num_other_bytes: int
    faults: list[str] = field(default_factory=list)


def digests_of(adapters: Path, checkpoints: Path) -> dict[str, tuple[str, str]]:
    """Whatever lies in the adapters' directory, leftovers included."""
    names = {path.name for root in (adapters, checkpoints) if root.exists() for path in root.iterdir()}
    return {
        name: (_digest(adapters / name / WEIGHTS), _digest(checkpoints / name / OPTIMIZER)) for name in names
    }


def account(
    engine: Engine, found: Digests, reference: Digests, replicas: Sequence[SmallReplica], expected: Expected
) -> Account:
    others = [name for name, digests in found.items() if digests != reference.get(name)]
    faults = [f"{name} has other bytes than an undisturbed run's" for name in sorted(others)]
    versions = _rows(engine, "SELECT version, adapter_sha256 FROM policy_versions WHERE state = 'published'")
    faults += _of_steps(engine, expected)
    faults += _of_groups(engine)
    faults += _of_versions(engine, dict(versions), found, expected.num_versions)
    faults += _of_replicas(engine, dict(versions), replicas)
    return Account(len(versions), len(others), faults)


def _of_steps(engine: Engine, expected: Expected) -> Iterator[str]:
    steps = _rows(engine, "SELECT version, state, attempt, reason FROM training_steps ORDER BY created_at")
    published = [step for step in steps if step.state == "published"]
    numbers = [step.version for step in published]
    if numbers != list(range(1, expected.num_versions + 1)):
        yield f"the steps made the versions {numbers}"
    for state, number in (("failed", expected.num_failed), ("skipped", expected.num_skipped)):
        ended = [step for step in steps if step.state == state]
        if len(ended) != number:
            yield f"{len(ended)} steps {state}: {[step.reason for step in ended]}"
        if odd := [step.reason for step in ended if not step.reason or expected.reason not in step.reason]:
            yield f"steps {state} with the reasons {odd}"
    if left := {str(step.state) for step in steps} - {"published", "failed", "skipped"}:
        yield f"a step is left {', '.join(sorted(left))}"
    tried = [step.attempt for step in published]
    if expected.attempts is not None and set(tried) - {expected.attempts}:
        yield f"the steps took {tried} attempts instead of {expected.attempts}"


def _of_groups(engine: Engine) -> Iterator[str]:
    twice = "SELECT exchange_id FROM step_samples WHERE is_used GROUP BY 1 HAVING count(*) > 1"
    if rows := _rows(engine, twice):
        yield f"{len(rows)} exchanges were trained twice"
    astray = (
        "SELECT g.state, count(*) AS num FROM groups AS g LEFT JOIN training_steps AS s ON s.id = g.step_id"
        " WHERE NOT (g.state = 'trained' AND s.state = 'published')"
        " AND NOT (g.state = 'skipped' AND s.state IN ('failed', 'skipped') AND g.reason IS NOT NULL) GROUP BY 1"
    )
    for row in _rows(engine, astray):
        yield f"{row.num} groups are {row.state} and their step says otherwise"


def _of_versions(
    engine: Engine, recorded: dict[int, str], found: Digests, num_versions: int
) -> Iterator[str]:
    if sorted(recorded) != list(range(1, num_versions + 1)):
        yield f"the published versions are {sorted(recorded)}"
    (live,) = _rows(engine, "SELECT live_version FROM policies")
    if live.live_version != num_versions:
        yield f"live is {live.live_version}"
    names = {f"default@{version}": sha256 for version, sha256 in recorded.items()}
    if set(found) != set(names):
        yield f"on disk there are {sorted(found)}"
    if any(found.get(name, ("", ""))[0] != sha256 for name, sha256 in names.items()):
        yield "Postgres has another digest than the disk"


def _of_replicas(engine: Engine, recorded: dict[int, str], replicas: Sequence[SmallReplica]) -> Iterator[str]:
    (live,) = _rows(engine, "SELECT live_version FROM policies")
    wanted = recorded.get(live.live_version)
    for replica in replicas:
        if replica.digests().get(f"default@{live.live_version}") != wanted:
            yield f"{replica.url} does not have the live version"


def _rows(engine: Engine, query: str) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(text(query)))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
