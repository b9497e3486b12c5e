"""Calls become rows: exchanges of trajectories of groups. A replay, here or by another process, changes nothing (I4).

Few statements a batch, whatever its size, and always in the same order of tables and ids, so that two recorders
never wait for each other in a circle. Call it first in its transaction: it begins with the lock that lets an early
reward be sure of what is being recorded.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.beginnings import begin_trajectories
from ledger.bulk import copy_rows
from ledger.deltas import Transcript, delta_of, latest_transcripts, transcript_of
from ledger.direct import Question, direct
from ledger.drafts import Draft, drafts_of
from ledger.erasure.rewards import erase_rewards
from ledger.erasure.skeleton import erased_draft
from ledger.erasure.tombstones import buried, has_tombstones
from ledger.groups.grouping import GroupKey, Wanted, group_key, group_size, join_groups, lock_open
from ledger.groups.routes import Routes
from ledger.links import Linked, link_calls
from ledger.merging import dissolve, merge
from ledger.placing import Existing, about_own_ids, place, place_by_own_ids, read_existing
from ledger.policies import Policy, read_policies
from ledger.recording_lock import lock_recording
from ledger.records import CallRecord
from ledger.rewards.early import are_waiting, reconcile
from ledger.rows import COLUMNS, exchange_row
from ledger.tables import exchanges

GROUP_WINDOW_SECONDS = 3600
_PRESENT = text("SELECT id FROM exchanges WHERE id = ANY (CAST(:ids AS uuid[]))")


def record_calls(
    connection: Connection,
    calls: Sequence[CallRecord],
    *,
    group_window_seconds: int = GROUP_WINDOW_SECONDS,
    policies: Sequence[Policy] | None = None,
) -> list[UUID]:
    """Write calls that are not yet written. Prompt groups hold what began within one window of this length.

    `policies`: as they were read before; only their names and ids matter, which never change. The ids of calls that
    were erased as they came (ledger.erasure): their skeletons are written.
    """
    drafts = drafts_of(calls, policies or read_policies(connection))
    return record_drafts(connection, drafts, group_window_seconds=group_window_seconds)


def record_drafts(
    connection: Connection, drafts: list[Draft], *, group_window_seconds: int = GROUP_WINDOW_SECONDS
) -> list[UUID]:
    """As `record_calls`, in id order."""
    connection = cast("Connection", direct(connection))
    if not drafts:
        return []
    drafts = [erased_draft(draft) if draft.call.is_erased else draft for draft in drafts]
    questions = (_present(drafts), are_waiting(drafts), has_tombstones(drafts), *about_own_ids(drafts))
    is_alone, (present, early, stones, found, names) = lock_recording(connection, drafts, *questions)
    ids = set(present.scalars())
    drafts = asked = [draft for draft in drafts if draft.id not in ids]
    if not drafts:
        return []
    if stones:
        drafts = buried(connection, drafts)
    plain = None if is_alone else place_by_own_ids(drafts, found, names)
    if plain:
        linked, existing = Linked(drafts, plain[0]), plain[1]
    else:
        placed = place(connection, drafts)
        linked = link_calls(connection, drafts, placed) if is_alone else Linked(drafts, placed)
        existing = read_existing(connection, sorted(set(linked.placed.values())))
    linked = _without_erased(linked, existing)
    _write(connection, linked, existing, group_window_seconds)
    erased = [draft for draft in linked.drafts if draft.erased_at]
    if early:
        reconcile(connection, asked if erased else linked.drafts, linked.placed)
        erase_rewards(
            connection, [draft.id for draft in erased], [linked.placed[draft.id] for draft in erased]
        )
    return [draft.call.call_id for draft in erased]


def _without_erased(linked: Linked, existing: dict[UUID, Existing]) -> Linked:
    """An erased trajectory stays erased, whatever goes on with it."""
    gone = {id_ for id_, found in existing.items() if found.is_erased}
    if not gone:
        return linked
    drafts = [erased_draft(draft) if linked.placed[draft.id] in gone else draft for draft in linked.drafts]
    return replace(linked, drafts=drafts)


def _write(
    connection: Connection, linked: Linked, existing: dict[UUID, Existing], window_seconds: int
) -> None:
    drafts, placed = linked.drafts, linked.placed
    routes = Routes()
    groups = _join(connection, drafts, placed, existing, routes, window_seconds=window_seconds)
    begin_trajectories(connection, drafts, placed, existing, groups, routes=routes)
    left_groups = linked.left_groups + merge(connection, linked.merged)
    _write_exchanges(connection, drafts, placed, set(existing) | set(linked.merged.values()))
    dissolve(connection, left_groups)


def _present(drafts: Sequence[Draft]) -> Question:
    return _PRESENT, {"ids": [draft.id for draft in drafts]}


def _join(
    connection: Connection,
    drafts: list[Draft],
    placed: dict[UUID, UUID],
    existing: dict[UUID, Existing],
    routes: Routes,
    *,
    window_seconds: int,
) -> dict[UUID, UUID]:
    """The group of each trajectory that has none and now got its first trainable exchange."""
    decided = {placed[draft.id]: draft.call.group_id for draft in drafts if draft.call.group_id}
    keys: dict[UUID, GroupKey] = {}
    wanted: dict[GroupKey, Wanted] = {}
    grouped = {id_ for id_, found in existing.items() if found.group_id is not None} | decided.keys()
    for draft in drafts:
        trajectory_id = placed[draft.id]
        if draft.reason is None and trajectory_id not in grouped and trajectory_id not in keys:
            key = keys[trajectory_id] = group_key(draft, window_seconds)
            before = wanted.get(key) or Wanted(route=routes.of(draft))
            wanted[key] = before if before.size else Wanted(group_size(draft), before.route)
    joined = join_groups(connection, wanted)
    still_open = lock_open(connection, decided.values())
    return {trajectory_id: joined[key] for trajectory_id, key in keys.items()} | {
        trajectory_id: id_ for trajectory_id, id_ in decided.items() if id_ in still_open
    }


def _write_exchanges(
    connection: Connection,
    drafts: list[Draft],
    placed: dict[UUID, UUID],
    recorded: set[UUID],
) -> None:
    before = {}
    if recorded:
        before = {placed[draft.id]: draft.id for draft in reversed(drafts) if placed[draft.id] in recorded}
    latest: dict[UUID, Transcript] = latest_transcripts(connection, before)
    rows = []
    for draft in drafts:
        trajectory_id, transcript = placed[draft.id], transcript_of(draft)
        delta = delta_of(draft, latest.get(trajectory_id))
        rows.append(exchange_row(draft, trajectory_id, delta, transcript))
        if transcript is not None:
            latest[trajectory_id] = transcript
    copy_rows(connection, exchanges, COLUMNS, rows)
