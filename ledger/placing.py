"""Which trajectory each draft belongs to. A caller's name means one trajectory per project, first come first served.

Order: the name as known, else the name read as an id of ours (a client may send back x-trajectory-id), else a new
trajectory. An id of ours may have become a name, too, where its trajectory proved to be part of another. Rows of
another project are invisible here, and never touched.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.bulk import insert_rows
from ledger.direct import Question
from ledger.drafts import Draft
from ledger.identifiers import parse_id
from ledger.tables import trajectory_names

_Name = tuple[UUID, str]
_NAMES = text("""
    SELECT n.project_id, n.name, n.trajectory_id
    FROM trajectory_names AS n
    JOIN unnest(CAST(:project_ids AS uuid[]), CAST(:names AS text[])) AS wanted (project_id, name)
        USING (project_id, name)
""")
_OWN_NAMES = text("""
    SELECT n.project_id, n.name, n.trajectory_id
    FROM trajectory_names AS n
    JOIN unnest(CAST(:project_ids AS uuid[]), CAST(:ids AS uuid[])) AS wanted (project_id, id)
        ON n.project_id = wanted.project_id AND n.name = CAST(wanted.id AS text)
""")
_TRAJECTORIES = text(
    "SELECT id, project_id, group_id, identified_by, erased_at IS NOT NULL AS is_erased"
    " FROM trajectories WHERE id = ANY (CAST(:ids AS uuid[]))"
)


@dataclass(frozen=True, slots=True)
class Existing:
    """A trajectory that the ledger has."""

    project_id: UUID
    group_id: UUID | None
    identified_by: str
    is_erased: bool = False


def read_existing(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, Existing]:
    return _existing(connection.execute(_TRAJECTORIES, {"ids": list(ids)})) if ids else {}


def _existing(rows: Iterable[Any]) -> dict[UUID, Existing]:
    return {row.id: Existing(row.project_id, row.group_id, row.identified_by, row.is_erased) for row in rows}


def about_own_ids(drafts: Sequence[Draft]) -> list[Question]:
    """What `place_by_own_ids` wants to know."""
    ids = [draft.wanted_trajectory_id for draft in drafts]
    return [
        (_TRAJECTORIES, {"ids": ids}),
        (_OWN_NAMES, {"project_ids": [draft.project_id for draft in drafts], "ids": ids}),
    ]


def place_by_own_ids(
    drafts: Sequence[Draft], found: Sequence[Any], names: Sequence[Any]
) -> tuple[dict[UUID, UUID], dict[UUID, Existing]] | None:
    """Where each draft belongs, and what exists of that. None where it takes more than the ids they ask for."""
    projects = {draft.wanted_trajectory_id: draft.project_id for draft in drafts}
    existing = {id_: one for id_, one in _existing(found).items() if id_ in projects}
    is_ours = all(one.project_id == projects[id_] for id_, one in existing.items())
    if names or not is_ours or any(draft.name for draft in drafts):
        return None
    return {draft.id: draft.wanted_trajectory_id for draft in drafts}, existing


def place(connection: Connection, drafts: Sequence[Draft]) -> dict[UUID, UUID]:
    """The trajectory id of each draft, by exchange id. New names are written; trajectories are not."""
    named = {(draft.project_id, draft.name): draft for draft in reversed(drafts) if draft.name}
    parsed = {key: (key[0], str(id_)) for key in named if (id_ := parse_id(key[1]))}
    ids = {draft.wanted_trajectory_id for draft in drafts} | {UUID(name) for _, name in parsed.values()}
    existing = read_existing(connection, sorted(ids))
    own = {(draft.project_id, str(draft.wanted_trajectory_id)) for draft in drafts}
    known = _read_names(connection, named.keys() | set(parsed.values()) | own)

    def own_id(draft: Draft) -> UUID:
        """The id that the record asks for, or what it is part of; a fresh one if another project has it."""
        wanted = draft.wanted_trajectory_id
        if merged := known.get((draft.project_id, str(wanted))):
            return merged
        found = existing.get(wanted)
        return draft.id if found and found.project_id != draft.project_id else wanted

    begun = {(d.project_id, str(d.wanted_trajectory_id)): own_id(d) for d in drafts if not d.name}
    begun |= {(found.project_id, str(id_)): id_ for id_, found in existing.items()}
    for key, name in parsed.items():
        if key not in known and (id_ := known.get(name) or begun.get(name)):
            known[key] = id_
    new = {key: own_id(draft) for key, draft in named.items() if key not in known}
    known |= _write_names(connection, new)
    return {
        draft.id: known[draft.project_id, draft.name] if draft.name else own_id(draft) for draft in drafts
    }


def _read_names(connection: Connection, names: Iterable[_Name]) -> dict[_Name, UUID]:
    keys = sorted(names)
    if not keys:
        return {}
    project_ids, texts = zip(*keys, strict=True)
    rows = connection.execute(_NAMES, {"project_ids": list(project_ids), "names": list(texts)})
    return {(row.project_id, row.name): row.trajectory_id for row in rows}


def _write_names(connection: Connection, new: dict[_Name, UUID]) -> dict[_Name, UUID]:
    """Claim the new names; another process may have been faster, so the answer is read back."""
    rows = [{"project_id": key[0], "name": key[1], "trajectory_id": new[key]} for key in sorted(new)]
    insert_rows(connection, trajectory_names, rows)
    return _read_names(connection, new)
