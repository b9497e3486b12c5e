"""What was said in a trajectory, as a judge or a scorer reads it: messages in OpenAI's shape, answers included."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.conversation import whole_messages
from ledger.text import from_storable, from_storable_text

# Of an exchange: what nobody is shown.
IS_LEFT_OUT = """turn_type = 'side' OR coalesce(untrainable_reason IN
            ('opted_out', 'duplicate_retry', 'erased', 'failed', 'interrupted'), false)"""
_TURNS = text(f"""
    SELECT id, trajectory_id, messages, request, response, completion_text, finish_reason, parent_exchange_id,
        num_shared_messages, {IS_LEFT_OUT} AS is_left_out
    FROM exchanges WHERE trajectory_id = ANY (CAST(:trajectory_ids AS uuid[])) ORDER BY trajectory_id, id
""")


def read_transcripts(
    connection: Connection, trajectory_ids: Sequence[UUID]
) -> dict[UUID, list[dict[str, Any]]]:
    """What was said in each trajectory, answers included, as messages in OpenAI's shape."""
    rows = connection.execute(_TURNS, {"trajectory_ids": list(trajectory_ids)}).all()
    turns: dict[UUID, list[list[dict[str, Any]]]] = defaultdict(list)
    for row, messages in zip(rows, whole_messages(rows), strict=True):
        if not row.is_left_out:
            turns[row.trajectory_id].append(
                [*asked(from_storable(row.request), from_storable(messages)), answered(row)]
            )
    return {id_: joined_turns(turns[id_]) for id_ in turns}


def joined_turns(turns: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One conversation of many: a turn that repeats all so far goes on with it, another one follows it."""
    whole: list[dict[str, Any]] = []
    last: list[dict[str, Any]] = []
    for turn in turns:
        num_shared = len(last) if _without_remarks(turn[: len(last)]) == _without_remarks(last) else 0
        whole += turn[num_shared:]
        last = turn
    return whole


def asked(request: dict[str, Any], messages: list[Any] | None) -> list[dict[str, Any]]:
    """The request as messages: tools and instructions first, a bare prompt as a user's message."""
    found: list[dict[str, Any]] = []
    if tools := request.get("tools"):
        found.append({"role": "system", "tools": tools})
    if instructions := request.get("instructions") or request.get("system"):
        found.append({"role": "system", "content": instructions})
    if messages is not None:
        return found + [
            one if isinstance(one, dict) else {"role": "user", "content": one} for one in messages
        ]
    return [*found, {"role": "user", "content": request.get("prompt", request.get("input"))}]


def answered(row: Any) -> dict[str, Any]:
    """The answer as a message, without its empty members; how it ended where that was not by itself."""
    response = from_storable(row.response)
    if not isinstance(response, dict):
        response = {"content": from_storable_text(row.completion_text or "")}
    kept = {key: value for key, value in response.items() if value not in (None, [], "")}
    ending = {} if row.finish_reason in {None, "stop", "tool_calls"} else {"finish_reason": row.finish_reason}
    return {"role": "assistant", **kept, **ending}


def _without_remarks(messages: list[dict[str, Any]]) -> list[Any]:
    """A message as the next turn repeats it: content and role, for a client may add or drop the rest."""
    return [(one.get("role"), one.get("content"), bool(one.get("tool_calls"))) for one in messages]
