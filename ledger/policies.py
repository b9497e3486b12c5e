"""Policies: the named learners. Registered once, and `live` moves in one transaction that every proxy hears of.

A policy's base model never changes under its name: adapters trained on one base mean nothing on another.
"""

import re
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Row, Select, select, text, update
from sqlalchemy.dialects.postgresql import insert

from ledger.errors import LedgerError
from ledger.identifiers import new_id
from ledger.tables import policies, policy_versions, projects
from ledger.vocabulary import DEFAULT_PROJECT, VersionState

LIVE_CHANNEL = "slipstream_live"
_NOT_OURS = ("created_at", "retention_days", "combination", "paused_at", "paused_reason")
_PROJECT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Policy:
    """One row of `policies`, with its project's name.

    Example: name "default", live_version 3 -> clients read `default@3`. In project "acme" its line is `acme@default`,
    so vLLM and the disk know that version as `acme@default@3`.
    """

    id: UUID
    project_id: UUID
    project: str
    name: str
    base_model: str
    live_version: int
    reward_min: float
    reward_max: float

    @property
    def line(self) -> str:
        """What the names of its adapters begin with: no two policies share one, since no name holds an @."""
        return self.name if self.project == DEFAULT_PROJECT else f"{self.project}@{self.name}"


def adapter_name(line: str, version: int) -> str:
    """With the policy's name, what a client sees as `model`; with its line, what vLLM and the disk know the adapter as
    (vLLM serves version 0 as the base).
    """
    return f"{line}@{version}"


def ensure_project(connection: Connection, name: str) -> UUID:
    """The id of the project with this name, made if there is none. Raises LedgerError for a name that no file can have."""
    if not _PROJECT_NAME.fullmatch(name):
        raise LedgerError(
            f"{name!r} is not a project name: use up to 64 letters, digits, dots, dashes and underscores, a letter or "
            "digit first"
        )
    connection.execute(insert(projects).values(id=new_id(), name=name).on_conflict_do_nothing())
    project_id: UUID = connection.execute(select(projects.c.id).where(projects.c.name == name)).scalar_one()
    return project_id


def ensure_policy(
    connection: Connection, *, name: str, base_model: str, project: str = DEFAULT_PROJECT
) -> Policy:
    """Register a policy and its version 0. Safe to repeat and to run at once; another base model is refused."""
    check_name(name)
    project_id = ensure_project(connection, project)
    new = {"id": new_id(), "project_id": project_id, "name": name, "base_model": base_model}
    connection.execute(insert(policies).values(new).on_conflict_do_nothing())
    policy = _to_policy(connection.execute(_all().where(_named(project, name))).one())
    if policy.base_model != base_model:
        raise LedgerError(
            f"policy {name!r} learns on {policy.base_model!r}, not on {base_model!r}: give the new base model "
            "a new policy name (SLIPSTREAM_POLICY, or a table [policies.NAME]), or set SLIPSTREAM_BASE_MODEL back"
        )
    base = {"policy_id": policy.id, "version": 0, "state": VersionState.BASE}
    connection.execute(insert(policy_versions).values(base).on_conflict_do_nothing())
    return policy


def read_policies(connection: Connection) -> list[Policy]:
    return [_to_policy(row) for row in connection.execute(_all().order_by(projects.c.name, policies.c.name))]


def move_live(connection: Connection, policy_id: UUID, version: int) -> None:
    """Make `version` the one that new trajectories get; the notice goes out when this transaction commits."""
    moved = connection.execute(
        update(policies).where(policies.c.id == policy_id).values(live_version=version)
    )
    if moved.rowcount != 1:
        raise LedgerError(f"there is no policy {policy_id}: `slipstream versions` lists them")
    connection.execute(
        text("SELECT pg_notify(:channel, :payload)"), {"channel": LIVE_CHANNEL, "payload": str(policy_id)}
    )


def check_name(name: str) -> None:
    """Raises LedgerError for a name that no policy can have."""
    steps = name.split("/")  # adapters lie in directories of the policy's name
    if "@" in name or not name.isprintable() or name != name.strip() or not {"", ".", ".."}.isdisjoint(steps):
        raise LedgerError(
            f"{name!r} is not a policy name: use letters and digits, no @, and a / only between them (SLIPSTREAM_POLICY)"
        )


def _named(project: str, name: str) -> ColumnElement[bool]:
    return (projects.c.name == project) & (policies.c.name == name)


def _all() -> Select[tuple[object, ...]]:
    columns = [column for column in policies.c if column.name not in _NOT_OURS]
    return select(*columns, projects.c.name.label("project")).join_from(policies, projects)


def _to_policy(row: Row[tuple[object, ...]]) -> Policy:
    return Policy(**row._mapping)  # noqa: SLF001 - public, despite its underscore
