"""Exchanges made whole as text: what `ledger.deltas` left out is put back without reading a single id or message.

Invariant: what `ledger.conversation` gives, in memory that does not grow with a conversation's length: a transcript is
forgotten after the last turn that is a delta of it.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID


class Wholes:
    """For the exchanges of one trajectory, in id order. `last_child`: the last delta of each exchange that has any."""

    def __init__(self, last_child: Mapping[UUID, UUID]) -> None:
        self._last_child = last_child
        self._transcripts: dict[UUID, str] = {}
        self._messages: dict[UUID, tuple[str, int | None]] = {}

    def whole(self, row: Any) -> tuple[str | None, str | None]:
        """Prompt ids and messages of a row; None where there are none, or a part of them was erased."""
        prompt, messages = self._prompt(row), self._said(row)
        if row.id in self._last_child:
            if prompt is not None:
                self._transcripts[row.id] = joined(prompt, inner(row.completion_ids) or "")
            if messages is not None:
                self._messages[row.id] = messages, row.num_messages
        if self._last_child.get(row.parent_exchange_id) == row.id:
            self._transcripts.pop(row.parent_exchange_id, None)
            self._messages.pop(row.parent_exchange_id, None)
        return prompt, None if messages is None else f"[{messages}]"

    def _prompt(self, row: Any) -> str | None:
        own = inner(row.prompt_ids)
        if own is None or row.parent_exchange_id is None:
            return own
        shared = self._transcripts.get(row.parent_exchange_id)
        return None if shared is None else joined(first_ids(shared, row.num_shared_tokens), own)

    def _said(self, row: Any) -> str | None:
        own = inner(row.messages)
        if own is None or not row.num_shared_messages:
            return own
        shared, number = self._messages.get(row.parent_exchange_id, ("", 0))
        if number != row.num_shared_messages:
            values = json.loads(f"[{shared}]")[: row.num_shared_messages]
            shared = json.dumps(values, ensure_ascii=False)[1:-1]
        return joined(shared, own)


def inner(text: str | None) -> str | None:
    """What stands between the brackets of an array or a list."""
    return None if text is None else text[1:-1].strip()


def joined(one: str, other: str) -> str:
    return f"{one},{other}" if one and other else one or other


def first_ids(text: str, number: int) -> str:
    """Mostly it is all of them."""
    if not number:
        return ""
    return text if text.count(",") + 1 == number else ",".join(text.split(",", number)[:number])


def in_chunks(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    chunk: list[Any] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
