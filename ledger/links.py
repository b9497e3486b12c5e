"""What the calls of a batch have to do with calls recorded before: retries, and turns that the proxy could not place.

Only a recorder that is alone links (ledger.recording_lock). All of it is decided from the calls, not from their order
of arrival, except where a step was faster: what was claimed stays as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.beginnings import begin_late
from ledger.continuations import Turn, continued, read_turns
from ledger.drafts import Draft
from ledger.merging import first_exchanges, leave_groups, lock_groups, name_merged
from ledger.placing import read_existing
from ledger.retries import Sending, chain_before, duplicates, link
from ledger.sendings import Family, read_families
from ledger.union import Member, unite
from ledger.vocabulary import IdentifiedBy, Reason

_SET_ASIDE = text("""
    UPDATE exchanges SET is_trainable = false, untrainable_reason = 'duplicate_retry'
    WHERE id = ANY (CAST(:ids AS uuid[])) AND is_trainable
""")
_SET_RETRY = text("""
    UPDATE exchanges AS e SET retry_of = linked.retry_of
    FROM unnest(CAST(:ids AS uuid[]), CAST(:earlier AS uuid[])) AS linked (id, retry_of)
    WHERE e.id = linked.id AND e.retry_of IS DISTINCT FROM linked.retry_of
""")
_SET_CONTINUED = text(
    "UPDATE exchanges SET identified_by = 'conversation' WHERE id = ANY (CAST(:ids AS uuid[]))"
)


@dataclass(slots=True)
class Links:
    """By exchange id, and what of it concerns rows that are there already is written by `write_links`."""

    retry_of: dict[UUID, UUID] = field(default_factory=dict)
    duplicates: set[UUID] = field(default_factory=set)
    aside: set[UUID] = field(default_factory=set)  # trajectories of recorded duplicates
    continuing: set[UUID] = field(default_factory=set)
    pairs: list[tuple[Member, Member]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Linked:
    drafts: list[Draft]
    placed: dict[UUID, UUID]
    merged: dict[UUID, UUID] = field(default_factory=dict)  # recorded ones that become part of another
    left_groups: list[UUID] = field(default_factory=list)


def link_calls(connection: Connection, drafts: Sequence[Draft], placed: Mapping[UUID, UUID]) -> Linked:
    """The drafts as they are to be written; what they change of recorded rows is written, but for `merged`."""
    families, turns = read_families(connection, drafts), read_turns(connection, drafts)
    seen = set(placed.values()) | turns.trajectory_ids()
    seen |= {row.trajectory_id for family in families for row in family.rows}
    closed = lock_groups(connection, sorted(seen))
    links = Links()
    for family in families:
        _link_family(family, dict(placed), closed, links)
    for before, turn in continued(drafts, placed, turns):
        links.continuing.add(turn.exchange_id)
        links.pairs.append((_member(before), _member(turn)))
    began = first_exchanges(connection, sorted(seen))
    into = unite(links.pairs, closed, began)
    left = _write(connection, links, {draft.id for draft in drafts}, closed)
    recorded = read_existing(connection, sorted(into))
    projects = {placed[draft.id]: draft.project_id for draft in drafts}
    name_merged(connection, projects | {id_: found.project_id for id_, found in recorded.items()}, into)
    linked = [_linked(draft, links) for draft in drafts]
    now = {id_: into.get(trajectory_id, trajectory_id) for id_, trajectory_id in placed.items()}
    left += begin_late(connection, linked, now, began, closed)
    return Linked(linked, now, {id_: into[id_] for id_ in recorded}, left)


def _link_family(family: Family, placed: dict[UUID, UUID], closed: set[UUID], links: Links) -> None:
    known = family.known(closed)
    new = [one for one in family.new(placed) if one.call_id not in {one.call_id for one in known}]
    repeats = link(known, new, family.links())
    by_id = {sending.call_id: sending for sending in known + new}
    not_samples = duplicates(by_id.values(), repeats)
    for later in repeats.keys() & by_id.keys():
        chain = [by_id[id_] for id_ in chain_before(later, repeats) if id_ in by_id]
        if chain:
            _link_to(chain, by_id[later], links)
    for call_id in not_samples:
        for exchange in by_id[call_id].exchanges:
            if exchange.is_trainable:
                links.duplicates.add(exchange.exchange_id)
                links.aside.add(exchange.trajectory_id)


def _link_to(chain: Sequence[Sending], later: Sending, links: Links) -> None:
    """Choice k repeats choice k of the call just before it (the first, where that broke off before it had so many).

    It stands in the trajectory of the latest choice k before it.
    """
    for exchange in later.exchanges:
        choice = exchange.exchange_id.int - later.call_id.int
        same = [one for sending in chain if (one := sending.choice(choice))]
        links.retry_of[exchange.exchange_id] = (
            chain[-1].choice(choice) or chain[-1].exchanges[0]
        ).exchange_id
        if same and exchange.is_untagged:
            pair = (
                (same[-1].trajectory_id, same[-1].exchange_id),
                (exchange.trajectory_id, exchange.exchange_id),
            )
            links.pairs.append(pair)


def _write(connection: Connection, links: Links, ours: set[UUID], closed: set[UUID]) -> list[UUID]:
    recorded = sorted(links.retry_of.keys() - ours)
    if recorded:
        values = {"ids": recorded, "earlier": [links.retry_of[id_] for id_ in recorded]}
        connection.execute(_SET_RETRY, values)
    if continuing := sorted(links.continuing - ours):
        connection.execute(_SET_CONTINUED, {"ids": continuing})
    if aside := sorted(links.duplicates - ours):
        connection.execute(_SET_ASIDE, {"ids": aside})
    return leave_groups(connection, links.aside - closed)


def _linked(draft: Draft, links: Links) -> Draft:
    is_duplicate = draft.reason is None and draft.id in links.duplicates
    return replace(
        draft,
        retry_of=links.retry_of.get(draft.id, draft.retry_of),
        reason=Reason.DUPLICATE_RETRY if is_duplicate else draft.reason,
        identified_by=IdentifiedBy.CONVERSATION if draft.id in links.continuing else draft.identified_by,
    )


def _member(turn: Turn) -> Member:
    return turn.trajectory_id, turn.exchange_id
