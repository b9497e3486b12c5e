"""Turns of a conversation as deltas: what the previous turn's transcript holds is not stored again.

A row keeps the digest of its whole transcript (prompt, then completion), so deciding needs one earlier row, however
long the conversation. A delta never points into another month: dropping a partition breaks no later row.
"""

import hashlib
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.drafts import Draft
from ledger.frozen import dataclass
from ledger.identifiers import time_of
from ledger.partitions import month_start
from ledger.text import to_json_bytes
from ledger.token_ids import tokens_digest

_LATEST = text("""
    SELECT wanted.trajectory_id, latest.*
    FROM unnest(CAST(:trajectory_ids AS uuid[]), CAST(:ids AS uuid[])) AS wanted (trajectory_id, id)
    CROSS JOIN LATERAL (
        SELECT e.id, e.num_transcript_tokens, e.transcript_sha256, e.num_messages, e.messages_sha256
        FROM exchanges AS e
        WHERE e.trajectory_id = wanted.trajectory_id AND e.id < wanted.id AND e.transcript_sha256 IS NOT NULL
        ORDER BY e.id DESC
        LIMIT 1
    ) AS latest
""")


@dataclass(frozen=True, slots=True)
class Transcript:
    """Everything said up to the end of one exchange, as lengths and digests."""

    exchange_id: UUID
    num_tokens: int
    tokens_sha256: bytes
    num_messages: int | None
    messages_sha256: bytes | None
    messages_text: bytes | None = None  # as jsonb reads them; None where it was read from the ledger


@dataclass(frozen=True, slots=True)
class Delta:
    """What of an exchange stands in its parent. Without a parent: nothing."""

    parent_exchange_id: UUID | None = None
    num_shared_tokens: int = 0
    num_shared_messages: int = 0


_WHOLE = Delta()


def messages_digest(messages: list[Any]) -> bytes:
    return hashlib.sha256(to_json_bytes(messages)).digest()


def transcript_of(draft: Draft) -> Transcript | None:
    """None where a token id is missing: nothing can continue such an exchange."""
    prompt_ids, completion_ids = draft.prompt_ids, draft.choice.completion_ids
    if prompt_ids is None or completion_ids is None:
        return None
    messages = draft.call.messages
    written = None if messages is None else to_json_bytes(messages)
    return Transcript(
        exchange_id=draft.id,
        num_tokens=len(prompt_ids) + len(completion_ids),
        tokens_sha256=tokens_digest(prompt_ids, completion_ids),
        num_messages=None if messages is None else len(messages),
        messages_sha256=None if written is None else hashlib.sha256(written).digest(),
        messages_text=written,
    )


def delta_of(draft: Draft, latest: Transcript | None) -> Delta:
    """How the prompt continues the trajectory's latest transcript. An empty one is not worth a delta."""
    if latest is None or not latest.num_tokens or _month(latest.exchange_id) != _month(draft.id):
        return _WHOLE
    prompt_ids = draft.prompt_ids or []
    if tokens_digest(prompt_ids[: latest.num_tokens]) != latest.tokens_sha256:
        return _WHOLE
    return Delta(latest.exchange_id, latest.num_tokens, _num_shared_messages(draft.call.messages, latest))


def latest_transcripts(connection: Connection, before: dict[UUID, UUID]) -> dict[UUID, Transcript]:
    """The latest stored transcript of each trajectory before the exchange id given for it."""
    if not before:
        return {}
    rows = connection.execute(_LATEST, {"trajectory_ids": list(before), "ids": list(before.values())})
    return {
        row[0]: Transcript(row[1], row[2], bytes(row[3]), row[4], row[5] and bytes(row[5])) for row in rows
    }


def _num_shared_messages(messages: list[Any] | None, latest: Transcript) -> int:
    if messages is None or not latest.num_messages or latest.num_messages > len(messages):
        return 0
    is_shared = messages_digest(messages[: latest.num_messages]) == latest.messages_sha256
    return latest.num_messages if is_shared else 0


def _month(exchange_id: UUID) -> object:
    return month_start(time_of(exchange_id))
