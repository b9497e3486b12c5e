"""What the next step would do, without a model: the step's own functions, in a transaction that writes nothing.

Invariant: nothing in a plan changes by itself. Two plans of the same ledger are equal; the step that follows has its samples.
It runs where torch is not installed.
"""

from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, text

from ledger.groups.waiting import scored_groups
from ledger.policies import Policy, read_policies
from ledger.reading import plain
from ledger.triggers import read_situation, what_is_missing
from ledger.vocabulary import StepState
from ledger.workers import worker_of
from trainer.build import Batch, read_batch
from trainer.claim import ACTIVE, Step
from trainer.policy_settings import trained_settings
from trainer.ready import groups_now, with_room
from trainer.settings import TrainerSettings
from trainer.snapshot import snapshot

MAX_NOT_READY = 200
PLAN_SECONDS = 60
ACTIVE_STEP = text(
    f"SELECT id AS step_id, version, state FROM training_steps WHERE policy_id = :policy_id AND state IN ({ACTIVE})"
)
NOBODY = UUID(int=0)


def reading(engine: Engine) -> AbstractContextManager[Connection]:
    """A snapshot for one plan, whose statements are bounded."""
    return snapshot(engine, PLAN_SECONDS)


def read_plan(
    connection: Connection,
    settings: TrainerSettings,
    project_id: UUID | None = None,
    *,
    is_worker: bool = True,
) -> dict[str, Any]:
    """The plan of each policy of the project, or of all projects, with the settings of whoever trains it.

    `is_worker`: the caller trains with `settings`. Any other caller's count only where no worker told of its own.
    """
    policies = [p for p in read_policies(connection) if project_id in (None, p.project_id)]
    plans = [
        _of_policy(connection, policy, *_settings_for(connection, policy, settings, is_worker=is_worker))
        for policy in policies
    ]
    return {"object": "plan", "policies": plans}


def _of_policy(
    connection: Connection, policy: Policy, known: TrainerSettings | None, settings_of: str | None
) -> dict[str, Any]:
    head = {
        "project": policy.project,
        "policy": policy.name,
        "live_version": policy.live_version,
        "worker": None if known is None else known.planning(),
        "settings_of": settings_of,
    }
    return head | (_nobodys() if known is None else _plan(connection, policy, known))


def _settings_for(
    connection: Connection, policy: Policy, settings: TrainerSettings, *, is_worker: bool
) -> tuple[TrainerSettings | None, str | None]:
    """What the worker of this policy runs with, and who says so; None where nobody knows."""
    named = (policy.name, policy.base_model)
    own = next((s for s in trained_settings(settings) if (s.policy, s.base_model) == named), None)
    if own is not None and is_worker:
        return own, "worker"
    if (worker := worker_of(connection, policy.id)) is not None:
        return settings.as_planned_by(worker.settings), "worker"
    return (None, None) if own is None else (own, "environment")


def _nobodys() -> dict[str, Any]:
    return {
        "active_step": None,
        "is_due": False,
        "waits_for": [],
        "groups": [],
        "postponed": [],
        "not_ready": [],
    } | _totals(Batch())


def _plan(connection: Connection, policy: Policy, settings: TrainerSettings) -> dict[str, Any]:
    all_ready = groups_now(connection, policy.id, settings)
    ready = with_room(all_ready, settings)
    batch = read_batch(connection, _step_of(policy), settings, [group.group_id for group in ready])
    active = connection.execute(ACTIVE_STEP, {"policy_id": policy.id}).mappings().first()
    missing = what_is_missing(settings.triggers(), read_situation(connection, policy.id, all_ready))
    found = {
        "active_step": dict(active) if active else None,
        "is_due": not missing["waits_for"],
        **missing,
        "groups": _groups(ready, batch),
        "postponed": batch.postponed,
        "not_ready": _not_ready(connection, policy, settings),
    }
    return plain(found | _totals(batch))


def _not_ready(connection: Connection, policy: Policy, settings: TrainerSettings) -> list[dict[str, Any]]:
    """Groups with a reward that the step would not take, oldest first."""
    found = scored_groups(connection, policy.id, settings.readiness(), limit=MAX_NOT_READY)
    return [asdict(group) for group in found if not group.is_ready]


def _step_of(policy: Policy) -> Step:
    """The step that would come: it has no row, and so no id, number or token."""
    return Step(NOBODY, policy.id, 0, policy.live_version, StepState.CLAIMED, 1, 0, 0, {}, {})


def _groups(ready: list[Any], batch: Batch) -> list[dict[str, Any]]:
    rows: dict[UUID, list[dict[str, Any]]] = {}
    for row in batch.rows:
        rows.setdefault(row.group_id, []).append(asdict(row))
    return [
        asdict(group) | {"exchanges": rows.get(group.group_id, [])}
        for group in ready
        if group.group_id not in batch.postponed
    ]


def _totals(batch: Batch) -> dict[str, Any]:
    """What would be used, and what would be left out, by reason."""
    used = [row for row in batch.rows if row.is_used]
    exchanges, tokens = Counter[str](), Counter[str]()
    for row in batch.rows:
        if row.reason is not None:
            exchanges[str(row.reason)] += 1
            tokens[str(row.reason)] += row.num_completion_tokens
    reasons = {
        name: {"num_exchanges": n, "num_tokens": tokens[name]} for name, n in sorted(exchanges.items())
    }
    return {
        "totals": {
            "num_groups": len({row.group_id for row in batch.rows}) + len(batch.empty),
            "num_exchanges": len(batch.rows),
            "num_used": len(used),
            "num_tokens_used": sum(row.num_completion_tokens for row in used),
            "left_out": reasons,
        }
    }
