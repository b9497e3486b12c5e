"""The tables of the ledger, in SQLAlchemy Core. migrations/ is the only thing that creates or changes them.

Partitioned by month on the id's own time (see ledger.identifiers): trajectories, exchanges, reward_events.
Partitioned tables carry no foreign keys to each other, so that retention can
drop a partition; docs/decisions/0002-ledger-schema.md says why.
"""

from ledger.tables.capture import capture_hours, capture_processes
from ledger.tables.erasure import erasures, exports, tombstones
from ledger.tables.exchanges import exchanges
from ledger.tables.judging import judge_runs
from ledger.tables.learning import (
    plans,
    route_baselines,
    step_requests,
    step_samples,
    training_steps,
    workers,
)
from ledger.tables.metadata import metadata
from ledger.tables.removals import removals
from ledger.tables.rewards import comparisons, reward_events
from ledger.tables.siblings import sibling_runs
from ledger.tables.tenancy import api_keys, metrics, policies, policy_versions, projects
from ledger.tables.traffic import groups, trajectories, trajectory_names

__all__ = [
    "api_keys",
    "capture_hours",
    "capture_processes",
    "comparisons",
    "erasures",
    "exchanges",
    "exports",
    "groups",
    "judge_runs",
    "metadata",
    "metrics",
    "plans",
    "policies",
    "policy_versions",
    "projects",
    "removals",
    "reward_events",
    "route_baselines",
    "sibling_runs",
    "step_requests",
    "step_samples",
    "tombstones",
    "training_steps",
    "trajectories",
    "trajectory_names",
    "workers",
]
