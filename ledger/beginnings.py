"""Trajectories begin with their first exchange, and tell of it: who named them how, and what the caller said of them.

A turn of a conversation may be recorded before the one that began it. The trajectory then begins with that turn, and
once more when its first call comes.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.bulk import insert_rows
from ledger.drafts import Draft
from ledger.groups.routes import Routes
from ledger.merging import leave_groups
from ledger.placing import Existing, read_existing
from ledger.tables import trajectories
from ledger.text import to_json, to_storable_text
from ledger.vocabulary import IdentifiedBy

_GIVE_GROUPS = text("""
    UPDATE trajectories AS t SET group_id = given.group_id
    FROM unnest(CAST(:ids AS uuid[]), CAST(:group_ids AS uuid[])) AS given (id, group_id)
    WHERE t.id = given.id AND t.group_id IS NULL
""")
_BEGIN_AGAIN = text("""
    UPDATE trajectories SET policy_id = :policy_id, external_id = :external_id, identified_by = :identified_by,
        choice_index = :choice_index, metadata = CAST(:metadata AS jsonb), end_user = :end_user, route = :route
    WHERE id = :id
""")


def begin_trajectories(
    connection: Connection,
    drafts: Sequence[Draft],
    placed: Mapping[UUID, UUID],
    existing: Mapping[UUID, Existing],
    groups: Mapping[UUID, UUID],
    *,
    routes: Routes,
) -> None:
    """Write those that are new, and give a group to those that had none until now."""
    first = {placed[draft.id]: draft for draft in reversed(drafts)}
    first = {id_: draft for id_, draft in first.items() if id_ not in existing} if existing else first
    rows = [
        {**_row(id_, first[id_], routes), "group_id": groups.get(id_)}
        for id_ in sorted(first, key=attrgetter("int"))
    ]
    insert_rows(connection, trajectories, rows)
    late = sorted(id_ for id_ in groups if id_ in existing)
    if late:
        connection.execute(_GIVE_GROUPS, {"ids": late, "group_ids": [groups[id_] for id_ in late]})


def begin_late(
    connection: Connection,
    drafts: Sequence[Draft],
    placed: Mapping[UUID, UUID],
    began: Mapping[UUID, UUID],
    closed: set[UUID],
) -> list[UUID]:
    """The first call of trajectories that a later turn began. Its group is theirs; the groups that they left."""
    existing = read_existing(connection, sorted(set(placed.values())))
    first = {
        placed[draft.id]: draft
        for draft in reversed(drafts)
        if draft.identified_by is not IdentifiedBy.CONVERSATION
        and placed[draft.id] in existing
        and existing[placed[draft.id]].identified_by == IdentifiedBy.CONVERSATION
        and draft.id < began.get(placed[draft.id], draft.id)
    }
    routes = Routes()
    for id_, draft in first.items():
        connection.execute(_BEGIN_AGAIN, _row(id_, draft, routes))
    regrouped = {id_ for id_, draft in first.items() if draft.reason is None} - closed
    return leave_groups(connection, regrouped, is_forced=True)


def _row(id_: UUID, draft: Draft, routes: Routes) -> dict[str, Any]:
    attribution = draft.call.attribution
    return {
        "id": id_,
        "project_id": draft.project_id,
        "policy_id": draft.policy.id,
        "external_id": draft.name,
        "identified_by": str(attribution.identified_by),
        "choice_index": draft.choice.index,
        "metadata": to_json(attribution.metadata),
        "end_user": attribution.end_user and to_storable_text(attribution.end_user),
        "erased_at": draft.erased_at,
        "route": routes.of(draft),
        "is_shadow": draft.call.is_shadow,
    }
