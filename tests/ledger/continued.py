"""Talks whose turns the proxy could not place."""

import hashlib
from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from ledger.records import Attribution, CallRecord
from ledger.text import to_json
from ledger.vocabulary import IdentifiedBy
from tests.ledger.calls import (
    an_attribution,
    conversation,
    later,
    rows,
)

PLACED = "SELECT id, trajectory_id, identified_by FROM exchanges ORDER BY id"


def digest(*parts: object) -> str:
    return hashlib.sha256((to_json(list(parts)) or "").encode()).hexdigest()


def talk(
    num_turns: int, begins_at: float = 0, answer: str = "hi", project: str = "default"
) -> list[CallRecord]:
    """Turns of which none was placed by the proxy: each says what it answered, and what it goes on with."""
    turns, before = [], None
    for number, turn in enumerate(conversation(num_turns)):
        after = digest(project, turn.messages, answer)
        turns.append(
            replace(
                turn,
                project=project,
                call_id=later(begins_at + number),
                attribution=an_attribution(continues_sha256=before),
                choices=[replace(turn.choices[0], conversation_sha256=after)],
            )
        )
        before = after
    return turns


def known(turn: CallRecord, first: CallRecord, **changes: Any) -> CallRecord:
    """As the proxy places it, which knew the turn before."""
    attribution = Attribution(
        trajectory_id=first.attribution.trajectory_id, identified_by=IdentifiedBy.CONVERSATION
    )
    return replace(turn, attribution=attribution, **changes)


def outcome(connection: Connection) -> list[Any]:
    return [
        rows(connection, PLACED),
        rows(connection, "SELECT t.id, t.identified_by, t.external_id, g.kind, g.key FROM trajectories t LEFT JOIN groups g ON g.id = t.group_id ORDER BY 1"),
        rows(connection, "SELECT count(*) FROM groups"),
        rows(connection, "SELECT name, trajectory_id FROM trajectory_names ORDER BY 1"),
    ]  # fmt: skip


def trajectories_of(connection: Connection) -> list[UUID]:
    return [row[1] for row in rows(connection, PLACED)]
