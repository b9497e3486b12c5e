"""What a reward names: a trajectory id, a reply's id (the exchange), or the caller's own trajectory id.

An id that belongs to another project is unknown here. `canonical` gives every spelling of an id one text, under
which an early reward waits; `#k` stands for choice k of a call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.drafts import Draft
from ledger.errors import ChoiceNeededError
from ledger.identifiers import parse_id
from ledger.rewards.meanings import Target, look_up
from ledger.text import to_name

_NAME = text("SELECT name FROM projects WHERE id = :id")


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
    name = connection.scalar(_NAME, {"id": project_id})
    [meaning] = look_up(connection, [Target(str(name), target, choice)])
    if meaning.choices:
        raise choice_needed(meaning.choices)
    return Judged(meaning.trajectory_id, meaning.exchange_id) if meaning.trajectory_id else None


def choice_needed(choices: Sequence[int]) -> ChoiceNeededError:
    names = ", ".join(map(str, choices))
    return ChoiceNeededError(f'This id names choices {names}: add "choice": k, one of them.')


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
