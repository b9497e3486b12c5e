"""The story of an import: some lines, one transaction, and again. What exists stays, so it may be broken off and repeated.

A line that cannot be read, or that Postgres refuses, is told with its number; the others go on.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DatabaseError, OperationalError

from ledger.bulk import insert_rows
from ledger.drafts import Draft, drafts_of
from ledger.errors import LedgerError
from ledger.exports.whole import in_chunks
from ledger.identifiers import time_of
from ledger.imports.chat_logs import call_of
from ledger.imports.exported import Row, Target, draft_of, events_of, id_of, is_exported
from ledger.imports.identity import CLIENT, copied_id, line_digest
from ledger.imports.lines import BadLineError, Line
from ledger.imports.months import Months
from ledger.imports.report import Report
from ledger.partitions import month_start
from ledger.policies import Policy, ensure_policy, read_policies
from ledger.recording import record_drafts
from ledger.retention import read_retentions
from ledger.tables import reward_events
from ledger.text import from_storable, to_json
from ledger.vocabulary import DEFAULT_PROJECT, Reason

_LINES = 100  # in one transaction
_PROJECTS = text("SELECT name FROM projects ORDER BY name LIMIT 50")
_VERSIONS = text("SELECT version, adapter_sha256 FROM policy_versions WHERE policy_id = :policy_id")
_KNOWN = text("""
    SELECT policy_id FROM exchanges
    WHERE request_sha256 = ANY (CAST(:digests AS bytea[])) AND project_id = :project_id AND version IS NULL
""")
_ERASED = text("""
    SELECT EXISTS (SELECT FROM tombstones WHERE project_id = :project_id AND subject_sha256 = :digest)
""")
_PLACED = text("""
    SELECT id, trajectory_id, project_id, policy_id, erased_at IS NOT NULL AS is_erased FROM exchanges WHERE id = ANY (:ids)
""")


@dataclass(slots=True)
class Importer:
    """`project` and `policy`: where everything goes; None = where an exported row came from."""

    engine: Engine
    project: str | None = None
    policy: str | None = None
    is_dry_run: bool = False
    report: Report = field(default_factory=Report)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def run(self, lines: Iterable[Line], progress: Callable[[], None]) -> Report:
        """Raises LedgerError where nothing can be imported at all."""
        months = Months(self.engine, self.now)
        for chunk in in_chunks(iter(lines), _LINES):
            self.report.num_lines += len(chunk)
            if not self.is_dry_run:
                months.prepare(chunk)
            self._import(chunk)
            progress()
        return self.report

    def _import(self, lines: Sequence[Line]) -> None:
        try:
            done = self._in_transaction(lines)
        except OperationalError:  # no line is guilty of that
            raise
        except DatabaseError as error:
            if len(lines) == 1:
                self.report.tell(lines[0], f"Postgres refuses it: {str(error.orig).strip().splitlines()[0]}")
                return
            for line in lines:
                self._import([line])
            return
        self.report.add(done)

    def _in_transaction(self, lines: Sequence[Line]) -> Report:
        with self.engine.connect() as connection, connection.begin() as transaction:
            done = _Chunk(connection, self).record(lines)
            if self.is_dry_run:
                transaction.rollback()
        return done


class _Chunk:
    """Some lines in one transaction."""

    def __init__(self, connection: Connection, importer: Importer) -> None:
        self._connection = connection
        self._importer = importer
        self._targets: dict[tuple[str, str], Target] = {}
        self._policies = {(one.project, one.name): one for one in read_policies(connection)}
        self._report = Report()

    def record(self, lines: Sequence[Line]) -> Report:
        drafts: dict[UUID, Draft] = {}
        events: dict[UUID, tuple[UUID, dict[str, Any]]] = {}
        for line in lines:
            try:
                if isinstance(line.value, BadLineError):
                    raise line.value
                found, judged = self._read(line.value)
            except BadLineError as error:
                self._report.tell(line, error)
                continue
            self._report.num_existing += sum(
                draft.id in drafts for draft in found
            )  # the line stands here twice
            drafts |= {draft.id: draft for draft in found}
            events |= {event["id"]: (found[0].id, event) for event in judged}
        self._record([drafts[id_] for id_ in sorted(drafts)], events)
        return self._report

    def _read(self, row: Row) -> tuple[list[Draft], list[dict[str, Any]]]:
        if is_exported(row):
            if self._would_be_empty(row):
                self._report.num_other_policy += 1
                return [], []
            target = self._target(row)
            return [draft_of(row, target)], events_of(row, target)
        policy = self._policy_of_logs()
        call = call_of(row, policy, self._importer.now)
        sha256 = call.request_sha256 or ""
        of_project = {"project_id": policy.project_id}
        if known := self._connection.scalar(_KNOWN, {"digests": [bytes.fromhex(sha256)], **of_project}):
            name = "num_existing" if known == policy.id else "num_other_policy"
            setattr(self._report, name, getattr(self._report, name) + len(call.choices))
            return [], []
        if self._connection.scalar(_ERASED, {"digest": line_digest(sha256), **of_project}):
            self._report.num_existing += len(call.choices)
            self._report.num_erased += len(call.choices)
            return [], []
        return drafts_of([call], [policy]), []

    def _record(self, drafts: list[Draft], events: dict[UUID, tuple[UUID, dict[str, Any]]]) -> None:
        ids = [draft.id for draft in drafts]
        before = {row.id: row for row in self._connection.execute(_PLACED, {"ids": ids})}
        num_other_policy = sum(_is_of_other_policy(one, before.get(one.id)) for one in drafts)
        record_drafts(self._connection, drafts)
        placed = {row.id: row for row in self._connection.execute(_PLACED, {"ids": ids})}
        rows = [
            {
                **event,
                "trajectory_id": placed[id_].trajectory_id,
                "content": to_json(from_storable(event["content"])),
            }
            for id_, event in events.values()
            if not placed[id_].is_erased and placed[id_].project_id == event["project_id"]
        ]
        number = _count_events(self._connection, [row["id"] for row in rows])
        insert_rows(self._connection, reward_events, rows)
        self._report.num_rewards += len(rows) - number
        self._report.num_elsewhere += sum(placed[one.id].project_id != one.project_id for one in drafts)
        self._report.num_other_policy += num_other_policy
        self._report.num_existing += len(before) - num_other_policy
        self._report.num_new += len(ids) - len(before)
        self._report.num_unasked += sum(_is_unasked(one) and one.id not in before for one in drafts)
        self._report.num_over += self._num_over([one for one in drafts if one.id not in before])
        self._report.num_erased += sum(row.is_erased for row in placed.values())

    def _num_over(self, new: Sequence[Draft]) -> int:
        retentions = {one.policy_id: one for one in read_retentions(self._connection)}
        now = self._importer.now
        return sum(retentions[one.policy.id].is_over(month_start(time_of(one.id)), now) for one in new)

    def _would_be_empty(self, row: Row) -> bool:
        """Whether the row has its place under another policy, while the one that is asked for is not there yet."""
        project, name = self._place(row)
        if (project, name) in self._targets or (project, name) in self._policies:
            return False
        id_ = id_of(row)
        wanted = copied_id(id_, project) if project != row.get("project") else id_
        return any(
            place.project_id in {one.project_id for one in self._policies.values() if one.project == project}
            for place in self._connection.execute(_PLACED, {"ids": [wanted]})
        )

    def _place(self, row: Row) -> tuple[str, str]:
        project, name = (
            self._importer.project or row.get("project"),
            self._importer.policy or row.get("policy"),
        )
        if not isinstance(project, str) or not isinstance(name, str):
            raise BadLineError("no row of an export: it names no project or policy")
        return project, name

    def _target(self, row: Row) -> Target:
        project, name = self._place(row)
        if (project, name) not in self._targets:
            policy = self._policies.get((project, name)) or self._made(project, name, row.get("base_model"))
            versions = self._connection.execute(_VERSIONS, {"policy_id": policy.id})
            known = {version.version: version.adapter_sha256 for version in versions}
            self._targets[project, name] = Target(policy, known, is_copy=project != row.get("project"))
        return self._targets[project, name]

    def _made(self, project: str, name: str, base_model: object) -> Policy:
        try:
            return ensure_policy(self._connection, name=name, base_model=str(base_model), project=project)
        except LedgerError as error:
            raise BadLineError(str(error)) from error

    def _policy_of_logs(self) -> Policy:
        key = self._importer.project or DEFAULT_PROJECT, self._importer.policy or "default"
        if key not in self._policies:
            names = list(self._connection.scalars(_PROJECTS))
            if key[0] not in names:
                raise LedgerError(
                    f"there is no project {key[0]!r}: `slipstream keys create --project {key[0]}` makes it, and a "
                    f"running proxy then gives it a policy; or say another --project (there is {', '.join(names)})"
                )
            raise LedgerError(
                f"there is no policy {key[1]!r} in project {key[0]!r} whose teacher data this would be: "
                "say --project and --policy (`slipstream versions` lists them), or start a proxy, which registers it"
            )
        return self._policies[key]


def _is_of_other_policy(draft: Draft, place: Any) -> bool:
    return (
        place is not None
        and place.project_id == draft.policy.project_id
        and place.policy_id != draft.policy.id
    )


def _is_unasked(draft: Draft) -> bool:
    return (
        draft.reason is Reason.EXTERNAL_MODEL and draft.call.client_name == CLIENT and not draft.call.messages
    )


def _count_events(connection: Connection, ids: Sequence[UUID]) -> int:
    query = text("SELECT count(*) FROM reward_events WHERE id = ANY (:ids)")
    return int(connection.execute(query, {"ids": list(ids)}).scalar_one())
