"""The story of an erasure: begin, some rows at a time, finish. Killed anywhere, the same request goes on with it.

Each function is one short transaction, in which this project's recorders wait (docs/decisions/0013-erasure.md).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.dialects.postgresql import insert

from ledger.erasure import consequences
from ledger.erasure.files import erase_files
from ledger.erasure.frames import IsErased
from ledger.erasure.rewards import erase_rewards
from ledger.erasure.rows import Held, close, empty
from ledger.erasure.search import find_trajectories, trajectory_of
from ledger.erasure.shared import cut_repeated
from ledger.erasure.subject import Subject, digests_of, trajectory_digest
from ledger.erasure.tombstones import is_buried, stones_of, write_tombstones
from ledger.errors import LedgerError
from ledger.identifiers import first_id_at, new_id
from ledger.imports.identity import line_digest
from ledger.recording_lock import lock_early
from ledger.records import CallRecord
from ledger.tables import erasures, projects, tombstones
from ledger.text import from_storable_text, to_storable_text
from ledger.vocabulary import ErasureState, ErasureSubject

MOST_TRAJECTORIES = 100  # in one transaction
MOST_EXCHANGES = 2000
_COUNTS = ("num_trajectories", "num_exchanges", "num_shared", "num_rewards")
_NAMES = text("SELECT name FROM trajectory_names WHERE trajectory_id = :id")
_UNSAY_EARLY = text("""
    UPDATE reward_events SET comment = NULL, content = NULL, idempotency_id = NULL
    WHERE project_id = :project_id AND target = :target AND trajectory_id IS NULL
""")


@dataclass(frozen=True, slots=True)
class Erasure:
    """A row of `erasures`, with the name that it does not hold."""

    id: UUID
    project_id: UUID
    subject: Subject
    before_id: UUID


def begin(connection: Connection, project: str, subject: Subject, requested_by: str) -> Erasure:
    """From its commit on, whatever is recorded of the subject is erased as it comes. Goes on with an unfinished one."""
    project_id = connection.scalar(select(projects.c.id).where(projects.c.name == project))
    if project_id is None:
        raise LedgerError(f"there is no project {project!r}: `slipstream keys list` shows them")
    lock_early(connection, project_id)
    of = erasures.c
    unfinished = select(of.id).where(
        of.project_id == project_id, of.subject_sha256 == subject.digest, of.state == ErasureState.REQUESTED
    )
    id_ = connection.scalar(unfinished.order_by(of.id).limit(1)) or new_id()
    values = {"id": id_, "project_id": project_id, "subject": subject.kind, "subject_sha256": subject.digest}
    values |= {"state": ErasureState.REQUESTED, "requested_by": to_storable_text(requested_by)}
    connection.execute(insert(erasures).values(values).on_conflict_do_nothing())
    erasure = Erasure(id_, project_id, subject, first_id_at(datetime.now(UTC)))
    write_tombstones(connection, id_, erasure.before_id, {subject.digest, *_other_names(connection, erasure)})
    if subject.kind is ErasureSubject.TRAJECTORY:
        connection.execute(_UNSAY_EARLY, {"project_id": project_id, "target": subject.storable})
    return erasure


def _other_names(connection: Connection, erasure: Erasure) -> set[bytes]:
    """A trajectory is found by whichever of its names a late call says."""
    if erasure.subject.kind is ErasureSubject.USER:
        return set()
    found = trajectory_of(connection, erasure.project_id, erasure.subject.name)
    if found is None:
        return set()
    names = connection.scalars(_NAMES, {"id": found}).all()
    return {trajectory_digest(from_storable_text(name)) for name in (str(found), *names)}


def erase_some(connection: Connection, erasure: Erasure) -> bool:
    """Empties some rows; False once there is nothing left to empty."""
    lock_early(connection, erasure.project_id)
    found = find_trajectories(connection, erasure.project_id, erasure.subject, MOST_TRAJECTORIES)
    if not found:
        return False
    held = Held(connection, erasure.subject, found)
    own = _some(held.own, erasure.subject)
    ids = [turn.id for turn in own]
    consequences.hold_exports(connection)
    cut = cut_repeated(connection, own, held.others)
    steps = consequences.steps_of(connection, ids + cut)
    exports = consequences.exports_of(connection, ids + cut)
    counts = {"num_shared": len(cut), "num_exchanges": empty(connection, ids)}
    counts["num_trajectories"], names = close(
        connection, erasure.subject, held.trajectory_ids, is_all=len(own) == len(held.own)
    )
    counts["num_rewards"] = erase_rewards(connection, ids, held.trajectory_ids)
    digests = {trajectory_digest(from_storable_text(name)) for name in names}
    digests |= {line_digest(turn.line_sha256) for turn in own if turn.line_sha256}
    write_tombstones(connection, erasure.id, erasure.before_id, digests)
    _report(connection, erasure, counts, steps, exports)
    return True


def _some(turns: Sequence[Any], subject: Subject) -> Sequence[Any]:
    """Those that name the user come last: while one is left, the trajectory is found again."""
    return sorted(turns, key=lambda turn: (subject.storable in turn.users, turn.id))[:MOST_EXCHANGES]


def _report(
    connection: Connection, erasure: Erasure, counts: dict[str, int], steps: Counter[str], exports: set[str]
) -> None:
    of = erasures.c
    report = connection.execute(select(of.report).where(of.id == erasure.id).with_for_update()).scalar_one()
    new = {name: report.get(name, 0) + counts[name] for name in _COUNTS}
    new["steps"] = dict(Counter(report.get("steps", {})) + steps)
    new["exports"] = sorted({*report.get("exports", ()), *exports})
    connection.execute(erasures.update().where(of.id == erasure.id).values(report=new))


def finish(connection: Connection, erasure: Erasure) -> dict[str, Any]:
    """What is answered: what this and earlier requests for the same subject did, and what they could not undo."""
    of = erasures.c
    done = {"state": ErasureState.FINISHED, "finished_at": datetime.now(UTC)}
    connection.execute(erasures.update().where(of.id == erasure.id).values(done))
    same = select(of.id, of.report, of.created_at, of.finished_at).where(
        of.project_id == erasure.project_id, of.subject_sha256 == erasure.subject.digest
    )
    rows = connection.execute(same.order_by(of.id)).all()
    [row] = [row for row in rows if row.id == erasure.id]
    steps: Counter[str] = Counter()
    for one in rows:
        steps.update(one.report.get("steps", {}))
    exports = sorted({id_ for one in rows for id_ in one.report.get("exports", ())})
    return {
        "object": "erasure",
        "id": str(erasure.id),
        "subject": str(erasure.subject.kind),
        "state": str(ErasureState.FINISHED),
        "requested_at": row.created_at.isoformat(),
        "finished_at": row.finished_at.isoformat(),
        **{name: sum(one.report.get(name, 0) for one in rows) for name in _COUNTS},
        "versions": consequences.versions(connection, steps),
        "exports": consequences.files(connection, exports),
    }


def is_erased_by(connection: Connection, erasure: Erasure, project: str) -> IsErased:
    """Whether a call in a file belongs to what this erased."""
    of = tombstones.c
    rows = connection.execute(
        select(of.subject_sha256, of.before_id).where(of.erasure_id == erasure.id)
    ).all()
    stones = stones_of((project, row.subject_sha256, row.before_id) for row in rows)

    def is_erased(call: CallRecord) -> bool:
        return call.project == project and is_buried(call.call_id, project, digests_of(call), stones)

    return is_erased


def erase_all(
    engine: Engine, project: str, subject: Subject, requested_by: str, spool: Path | None
) -> dict[str, Any]:
    """All of it, one transaction after the other, then the files. What HTTP's DELETE does, for a program."""
    with engine.begin() as connection:
        erasure = begin(connection, project, subject, requested_by)
    while True:
        with engine.begin() as connection:
            if not erase_some(connection, erasure):
                break
    with engine.begin() as connection:
        report, is_erased = finish(connection, erasure), is_erased_by(connection, erasure, project)
    return report | {"spool": erase_files(spool, is_erased, subject.needles) if spool else None}
