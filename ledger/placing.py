"""Which trajectory each draft belongs to. A caller's name means one trajectory per project, first come first served.

Order: the name as known, else the name read as an id of ours (a client may send back x-trajectory-id), else a new
trajectory. Rows of another project are invisible here, and never touched.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.bulk import insert_rows
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
_TRAJECTORIES = text(
    "SELECT id, project_id, group_id FROM trajectories WHERE id = ANY (CAST(:ids AS uuid[]))"
)


@dataclass(frozen=True, slots=True)
class Existing:
    """A trajectory that the ledger has."""

    project_id: UUID
    group_id: UUID | None


def read_existing(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, Existing]:
    rows = connection.execute(_TRAJECTORIES, {"ids": list(ids)})
    return {row.id: Existing(row.project_id, row.group_id) for row in rows}


def place(connection: Connection, drafts: Sequence[Draft]) -> dict[UUID, UUID]:
    """The trajectory id of each draft, by exchange id. New names are written; trajectories are not."""
    named = {(draft.policy.project_id, draft.name): draft for draft in reversed(drafts) if draft.name}
    ids = {draft.wanted_trajectory_id for draft in drafts}
    ids |= {parsed for _, name in named if (parsed := parse_id(name))}
    existing = read_existing(connection, sorted(ids))
    begun = {(draft.policy.project_id, draft.wanted_trajectory_id) for draft in drafts if not draft.name}
    begun |= {(found.project_id, id_) for id_, found in existing.items()}
    known = _read_names(connection, named)
    for key in named.keys() - known.keys():
        parsed = parse_id(key[1])
        if parsed and (key[0], parsed) in begun:
            known[key] = parsed
    known |= _write_names(connection, {k: _own_id(d, existing) for k, d in named.items() if k not in known})
    return {
        draft.id: known[draft.policy.project_id, draft.name] if draft.name else _own_id(draft, existing)
        for draft in drafts
    }


def _own_id(draft: Draft, existing: dict[UUID, Existing]) -> UUID:
    """The id that the record asks for, unless another project has it."""
    found = existing.get(draft.wanted_trajectory_id)
    return draft.id if found and found.project_id != draft.policy.project_id else draft.wanted_trajectory_id


def _read_names(connection: Connection, names: Sequence[_Name] | dict[_Name, Draft]) -> dict[_Name, UUID]:
    if not names:
        return {}
    project_ids, texts = zip(*names, strict=True)
    rows = connection.execute(_NAMES, {"project_ids": list(project_ids), "names": list(texts)})
    return {(row.project_id, row.name): row.trajectory_id for row in rows}


def _write_names(connection: Connection, new: dict[_Name, UUID]) -> dict[_Name, UUID]:
    """Claim the new names; another process may have been faster, so the answer is read back."""
    rows = [{"project_id": key[0], "name": key[1], "trajectory_id": new[key]} for key in sorted(new)]
    insert_rows(connection, trajectory_names, rows)
    return _read_names(connection, sorted(new))
