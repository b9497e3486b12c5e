"""Which calls of a batch belong to somebody who was erased after they began. Nothing of them may be written (I4 aside).

An erasure writes its tombstones while it is alone among the recorders of its project (ledger.recording_lock): a
recorder has committed before, and is found in the tables, or it asks after, and finds the tombstone.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.direct import Question
from ledger.drafts import Draft
from ledger.erasure.skeleton import erased_draft
from ledger.erasure.subject import digests_of, trajectory_digest
from ledger.text import from_storable_text

_ANY = text("SELECT FROM tombstones WHERE project_id = ANY (CAST(:project_ids AS uuid[])) LIMIT 1")
_FOUND = text("""
    SELECT t.project_id, t.subject_sha256, t.before_id
    FROM unnest(CAST(:project_ids AS uuid[]), CAST(:digests AS bytea[])) AS wanted (project_id, digest)
    JOIN tombstones AS t ON t.project_id = wanted.project_id AND t.subject_sha256 = wanted.digest
""")
_WRITE = text("""
    INSERT INTO tombstones (project_id, subject_sha256, erasure_id, before_id)
    SELECT e.project_id, digest, e.id, CAST(:before_id AS uuid)
    FROM erasures AS e, unnest(CAST(:digests AS bytea[])) AS digest WHERE e.id = :erasure_id
    ON CONFLICT (project_id, subject_sha256, erasure_id) DO UPDATE
        SET before_id = excluded.before_id, created_at = now() WHERE tombstones.before_id < excluded.before_id
""")

Stones = Mapping[
    tuple[UUID | str, bytes], UUID
]  # (project, by id or name; digest) -> calls with smaller ids are erased


def has_tombstones(drafts: Sequence[Draft]) -> Question:
    """Whether there is any in the projects of these drafts; mostly there is none, and nothing more is asked."""
    return _ANY, {"project_ids": list({draft.project_id for draft in drafts})}


def buried(connection: Connection, drafts: Sequence[Draft]) -> list[Draft]:
    """The same drafts; those of calls whose user or trajectory was erased, as skeletons."""
    digests: dict[UUID, tuple[UUID, set[bytes]]] = {}
    for draft in drafts:
        _, found = digests.setdefault(draft.call.call_id, (draft.project_id, digests_of(draft.call)))
        if draft.name:  # what is imported has its name from the file, not from the call
            found.add(trajectory_digest(from_storable_text(draft.name)))
    stones = _read(connection, digests.values())
    gone = {id_ for id_, (project_id, found) in digests.items() if is_buried(id_, project_id, found, stones)}
    return [erased_draft(draft) if draft.call.call_id in gone else draft for draft in drafts]


def is_buried(call_id: UUID, project: UUID | str, digests: Iterable[bytes], stones: Stones) -> bool:
    return any(call_id < stones[project, one] for one in digests if (project, one) in stones)


def write_tombstones(
    connection: Connection, erasure_id: UUID, before_id: UUID, digests: Iterable[bytes]
) -> None:
    values = {"erasure_id": erasure_id, "before_id": before_id, "digests": list(digests)}
    if values["digests"]:
        connection.execute(_WRITE, values)


def _read(connection: Connection, wanted: Iterable[tuple[UUID, set[bytes]]]) -> Stones:
    pairs = sorted({(project_id, digest) for project_id, found in wanted for digest in found})
    values = {"project_ids": [project_id for project_id, _ in pairs], "digests": [d for _, d in pairs]}
    return stones_of(connection.execute(_FOUND, values))


def stones_of(rows: Iterable[Sequence[Any]]) -> Stones:
    """From (project, digest, before)."""
    stones: dict[tuple[UUID | str, bytes], UUID] = {}
    for project, digest, before_id in rows:
        key = project, bytes(digest)
        stones[key] = max(before_id, stones.get(key, before_id))
    return stones
