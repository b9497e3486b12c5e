"""Turns of other users in a trajectory of which turns were erased: theirs stays readable, what they repeat goes.

A turn is a delta of the one before, and its request repeats the conversation. So what stands before it is gone with
the erased turn; messages that it repeats itself, the erased answer first of all, are cut off; and a prompt of which a
part is gone is no sample any more. Must run before the erased turns are emptied.
"""

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.text import to_json

_SAID = text("SELECT messages, response FROM exchanges WHERE id = ANY (:ids)")
_HELD = text(
    "SELECT id, parent_exchange_id, num_shared_messages, messages FROM exchanges WHERE id = ANY (:ids) ORDER BY id"
)
_CUT = text("""
    UPDATE exchanges SET messages = CAST(:messages AS jsonb), transcript_sha256 = NULL, messages_sha256 = NULL,
        prompt_ids = CASE WHEN CAST(:is_prompt_kept AS boolean) THEN prompt_ids END, is_trainable = false,
        untrainable_reason = CASE WHEN is_trainable THEN 'erased' ELSE untrainable_reason END
    WHERE id = :id
""")


def cut_repeated(connection: Connection, erased: Sequence[Any], others: Sequence[Any]) -> list[UUID]:
    """The turns of others that repeated something, or had it in their prompts."""
    first = {turn.trajectory_id: turn.id for turn in reversed(erased)}
    later = [turn.id for turn in others if turn.id > first.get(turn.trajectory_id, turn.id)]
    if not later:
        return []
    gone = {turn.id for turn in erased}
    said, holed = _said(connection, gone), set(gone)  # a hole in a prompt is one in its children's, too
    cut: list[UUID] = []
    for row in connection.execute(_HELD, {"ids": later}).all():
        rest = _rest(row, said, gone)
        is_holed = row.parent_exchange_id in holed
        if is_holed or rest != row.messages:
            holed.add(row.id)
            values = {"id": row.id, "messages": to_json(rest), "is_prompt_kept": is_holed}
            connection.execute(_CUT, values)
            cut.append(row.id)
    return cut


def _said(connection: Connection, ids: set[UUID]) -> set[str]:
    said = set()
    for row in connection.execute(_SAID, {"ids": sorted(ids)}):
        said |= {_key(message) for message in row.messages or ()}
        if isinstance(row.response, dict) and row.response.get("message"):
            said.add(_key(row.response["message"]))
    return said


def _rest(row: Any, said: set[str], gone: set[UUID]) -> list[Any] | None:
    """What follows the last message that the erased turns said, or were answered.

    Messages after those of a turn that stays repeat nothing older.
    """
    is_child = row.parent_exchange_id in gone
    messages: list[Any] | None = row.messages
    if messages is None or (row.num_shared_messages and not is_child):
        return messages
    cut = max((number + 1 for number, message in enumerate(messages) if _key(message) in said), default=0)
    while is_child and cut < len(messages) and _is_answer(messages[cut]):
        cut += 1
    return messages[cut:]


def _is_answer(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "assistant"


def _key(message: Any) -> str:
    """Role and content: clients repeat an answer without the members that they do not need."""
    if isinstance(message, dict):
        message = {name: message.get(name) for name in ("role", "content", "tool_calls") if message.get(name)}
    return json.dumps(message, sort_keys=True)
