"""Which answered turn a call goes on with, for calls that the proxy could not place (docs/decisions/0007-data-plane.md).

An answered turn is continued once: by the first completed call that goes on with it; failed ones before it belong to
the same trajectory and leave the turn open. Either side may be recorded first.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.drafts import Draft

_WANTED = """unnest(CAST(:projects AS uuid[]), CAST(:digests AS bytea[]), CAST(:ids AS uuid[]))
    AS wanted (project_id, digest, id)"""
# Compared by their messages, because a retry of a turn stands in the same trajectory and goes on with nothing.
ANSWERED = f"""
    SELECT wanted.id AS wanted_id, turn.id, turn.trajectory_id, turn.status
    FROM {_WANTED}
    CROSS JOIN LATERAL (
        SELECT e.id, e.trajectory_id, e.num_messages, e.status FROM exchanges AS e
        WHERE e.conversation_sha256 = wanted.digest AND e.project_id = wanted.project_id AND e.id < wanted.id
        ORDER BY e.id DESC LIMIT 100
    ) AS turn
    WHERE NOT EXISTS (
        SELECT FROM exchanges AS later
        WHERE later.trajectory_id = turn.trajectory_id AND later.id > turn.id AND later.status = 'completed'
            AND later.turn_type = 'main' AND (later.num_messages > turn.num_messages) IS NOT FALSE
    )
"""  # noqa: S608 - constants
AWAITING = f"""
    SELECT wanted.id AS wanted_id, turn.id, turn.trajectory_id, turn.status
    FROM {_WANTED}
    CROSS JOIN LATERAL (
        SELECT e.id, e.trajectory_id, e.num_messages, e.status FROM exchanges AS e
        WHERE e.continues_sha256 = wanted.digest AND e.identified_by = 'new'
            AND e.project_id = wanted.project_id AND e.id > wanted.id
        ORDER BY e.id LIMIT 100
    ) AS turn
    WHERE NOT EXISTS (
        SELECT FROM exchanges AS earlier
        WHERE earlier.trajectory_id = turn.trajectory_id AND earlier.id < turn.id AND earlier.status = 'completed'
            AND earlier.turn_type = 'main' AND (earlier.num_messages < turn.num_messages) IS NOT FALSE
    )
    ORDER BY turn.id
"""  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class Turn:
    exchange_id: UUID
    trajectory_id: UUID
    is_completed: bool


@dataclass(frozen=True, slots=True)
class Turns:
    """Recorded turns by the id of the draft that may go on with them, or that they wait for."""

    answered: Mapping[UUID, list[Turn]]
    awaiting: Mapping[UUID, list[Turn]]

    def trajectory_ids(self) -> set[UUID]:
        found = [*self.answered.values(), *self.awaiting.values()]
        return {turn.trajectory_id for turns in found for turn in turns}


def read_turns(connection: Connection, drafts: Sequence[Draft]) -> Turns:
    looking = [(draft, draft.continues_sha256) for draft in drafts if draft.is_looking]
    answered = [(draft, draft.conversation_sha256) for draft in drafts if draft.conversation_sha256]
    return Turns(_read(connection, ANSWERED, looking), _read(connection, AWAITING, answered))


def _read(connection: Connection, query: str, wanted: Sequence[tuple[Draft, Any]]) -> dict[UUID, list[Turn]]:
    found: dict[UUID, list[Turn]] = defaultdict(list)
    if wanted:
        values = {
            "projects": [draft.project_id for draft, _ in wanted],
            "digests": [digest for _, digest in wanted],
            "ids": [draft.id for draft, _ in wanted],
        }
        for row in connection.execute(text(query), values):
            found[row.wanted_id].append(Turn(row.id, row.trajectory_id, row.status == "completed"))
    return found


def continued(drafts: Sequence[Draft], placed: Mapping[UUID, UUID], turns: Turns) -> list[tuple[Turn, Turn]]:
    """(the turn answered, the turn that goes on with it), for what this batch brings together. Drafts in id order."""
    open_turns = _OpenTurns(drafts, placed)
    answered: dict[tuple[UUID, str], list[Turn]] = defaultdict(list)
    for draft in drafts:
        turn = Turn(draft.id, placed[draft.id], draft.is_turn)
        if draft.is_looking and draft.continues_sha256:
            ours = answered[draft.project_id, draft.continues_sha256]
            open_turns.go_on_with_latest([*turns.answered.get(draft.id, []), *ours], turn)
        if draft.conversation_sha256:
            answered[draft.project_id, draft.conversation_sha256].append(turn)
    for before in (turn for ours in answered.values() for turn in ours):
        open_turns.give_to_first(before, turns.awaiting.get(before.exchange_id, []))
    return open_turns.pairs


class _OpenTurns:
    """Which answered turns nobody went on with yet, while a batch is looked through."""

    def __init__(self, drafts: Sequence[Draft], placed: Mapping[UUID, UUID]) -> None:
        self._newest = {placed[d.id]: d.id for d in drafts if d.is_turn and not d.is_looking}
        self._closed: set[UUID] = set()
        self._found: set[UUID] = set()
        self.pairs: list[tuple[Turn, Turn]] = []

    def go_on_with_latest(self, options: Sequence[Turn], turn: Turn) -> None:
        open_ones = [option for option in options if self._is_open(option)]
        if open_ones:
            self._pair(max(open_ones, key=lambda option: option.exchange_id), turn)

    def give_to_first(self, before: Turn, awaiting: Sequence[Turn]) -> None:
        """To the first that was completed, and to those that failed before it."""
        for turn in awaiting:
            if turn.exchange_id not in self._found and self._is_open(before):
                self._pair(before, turn)

    def _is_open(self, turn: Turn) -> bool:
        is_newest = self._newest.get(turn.trajectory_id, turn.exchange_id) <= turn.exchange_id
        return is_newest and turn.exchange_id not in self._closed

    def _pair(self, before: Turn, turn: Turn) -> None:
        self.pairs.append((before, turn))
        self._found.add(turn.exchange_id)
        if turn.is_completed:
            self._closed.add(before.exchange_id)
