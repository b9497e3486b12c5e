"""What a reward names: a trajectory id, a reply's id (the exchange), or the caller's own trajectory id.

An id that belongs to another project is unknown here. `canonical` gives every spelling of an id one text, under
which an early reward waits; `#k` stands for choice k of a call.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, select

from ledger.drafts import Draft
from ledger.errors import ChoiceNeededError
from ledger.identifiers import MAX_CHOICES, parse_id
from ledger.tables import exchanges, trajectories, trajectory_names
from ledger.text import to_name


@dataclass(frozen=True, slots=True)
class Judged:
    """What a target means: a whole trajectory, or one exchange of it."""

    trajectory_id: UUID
    exchange_id: UUID | None = None


def canonical(target: str, choice: int | None = None) -> str:
    """Example: "chatcmpl-0197…c0000", choice 1 -> "0197…-c0000#1"."""
    parsed = parse_id(target)
    suffix = "" if choice is None else f"#{choice}"
    return f"{parsed}{suffix}" if parsed else to_name(target + suffix)


def resolve(connection: Connection, project_id: UUID, target: str, choice: int | None) -> Judged | None:
    """None if nothing of this project has the id, yet. Raises ChoiceNeededError."""
    parsed = parse_id(target)
    names = [f"{target}#{choice}" if choice else target]
    if parsed:  # an id of ours is a name, too, where its trajectory proved to be part of another
        names.append(str(UUID(int=parsed.int + (choice or 0))))
    for name in names:
        if named := _named(connection, project_id, name):
            return named
    if parsed is None:
        return None
    return _trajectory(connection, project_id, parsed, choice) or _exchange(
        connection, project_id, parsed, choice
    )


def hold(connection: Connection, judged: Judged) -> bool:
    """Keep the trajectory from becoming part of another until the commit. False: it did so just before."""
    ids = trajectories.c
    wanted = select(ids.id).where(ids.id == judged.trajectory_id).with_for_update(read=True, key_share=True)
    return connection.scalar(wanted) is not None


def targets_of(draft: Draft, trajectory_id: UUID) -> Iterator[tuple[str, Judged]]:
    """Every target that names this exchange or its trajectory, so that early rewards find them."""
    index, attribution = draft.choice.index, draft.call.attribution
    yield canonical(str(draft.call.call_id), index), Judged(trajectory_id, draft.id)
    if index or len(draft.call.choices) <= 1:
        yield canonical(str(draft.id)), Judged(trajectory_id, draft.id)
    yield canonical(str(trajectory_id)), Judged(trajectory_id)
    yield canonical(str(draft.wanted_trajectory_id)), Judged(trajectory_id)
    if draft.wanted_trajectory_id.int - index == attribution.trajectory_id.int:
        yield canonical(str(attribution.trajectory_id), index), Judged(trajectory_id)
    if attribution.external_id:
        yield canonical(attribution.external_id, index), Judged(trajectory_id)
        if not index:
            yield canonical(attribution.external_id), Judged(trajectory_id)


def _named(connection: Connection, project_id: UUID, name: str) -> Judged | None:
    names = trajectory_names.c
    found = connection.scalar(
        select(names.trajectory_id).where(names.project_id == project_id, names.name == to_name(name))
    )
    return Judged(found) if found else None


def _trajectory(connection: Connection, project_id: UUID, parsed: UUID, choice: int | None) -> Judged | None:
    ids = trajectories.c
    wanted = UUID(int=parsed.int + (choice or 0))
    found = connection.scalar(select(ids.id).where(ids.project_id == project_id, ids.id == wanted))
    return Judged(found) if found else None


def _exchange(connection: Connection, project_id: UUID, parsed: UUID, choice: int | None) -> Judged | None:
    """A call's id spans all its choices; the id of a later choice is exact."""
    of, is_call = exchanges.c, parsed.int % MAX_CHOICES == 0
    last = UUID(int=parsed.int + MAX_CHOICES - 1) if is_call else parsed
    rows = connection.execute(
        select(of.id, of.trajectory_id, of.choice_index)
        .where(of.project_id == project_id, of.id >= parsed, of.id <= last)
        .order_by(of.id)
    ).all()
    matching = [row for row in rows if choice is None or row.choice_index == choice]
    if rows and len(matching) != 1:
        raise ChoiceNeededError(
            f'This id names choices {", ".join(str(row.choice_index) for row in rows)}: add "choice": k, one of them.'
        )
    return Judged(matching[0].trajectory_id, matching[0].id) if matching else None
