"""Tool calls put together from their deltas; arguments stay the raw text that the model wrote."""

from collections.abc import Iterable
from typing import Any


def add_tool_calls(calls: list[dict[str, Any]], deltas: Iterable[Any]) -> None:
    """Merges by index. A new id under a known index is another call; an empty id continues the last one."""
    for delta in deltas:
        if not isinstance(delta, dict):
            continue
        index, new_id = delta.get("index"), delta.get("id")
        same = [call for call in calls if index is not None and call.get("index") == index]
        is_continued = same and not (new_id and same[-1].get("id") and same[-1]["id"] != new_id)
        if not is_continued:
            calls.append({**delta, "function": dict(delta.get("function") or {})})
            continue
        call, function = same[-1], delta.get("function") or {}
        call["id"] = call.get("id") or new_id
        call["type"] = call.get("type") or delta.get("type")
        for key in ("name", "arguments"):
            if isinstance(function.get(key), str):
                call["function"][key] = (call["function"].get(key) or "") + function[key]
