"""What a reply looks like when its texts, numbers and lengths are left out: two replies of one shape read alike.

Example: {"id": "a", "choices": [{"index": 0}, {"index": 1}]} → {"id": "text", "choices": [{"index": "integer"}]}, with
the order of the keys kept, since clients see it.
"""

import json
from difflib import unified_diff
from pprint import pformat
from typing import Any

from tests.corpus.recording import Recorded

KINDS = {str: "text", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def shape_of(value: Any) -> Any:
    """Objects become pairs (order counts), arrays the shapes in them, each once, in order of appearance."""
    if isinstance(value, list):
        return ("array", *_distinct(shape_of(item) for item in value))
    if not isinstance(value, dict):
        return KINDS[type(value)]
    if value and (all(key.isdigit() for key in value) or all(isinstance(v, float) for v in value.values())):
        return ("map", *_distinct(shape_of(item) for item in value.values()))  # keyed by tokens or their ids
    return ("object", *((key, shape_of(item)) for key, item in value.items()))


def _distinct(shapes: Any) -> list[Any]:
    return list(dict.fromkeys(shapes))


def reply_shape(recorded: Recorded) -> Any:
    """Status, headers and body. Of a stream: the kinds of its events in order of appearance, and the last one."""
    headers = tuple(
        sorted((key, value) for key, value in recorded.headers.items() if key != "content-length")
    )
    return recorded.status, headers, recorded.is_broken, body_shape(recorded)


def body_shape(recorded: Recorded) -> Any:
    if not recorded.raw:
        return None
    if not recorded.headers.get("content-type", "").startswith("text/event-stream"):
        return shape_of(json.loads(recorded.raw))
    events = [_event_shape(event) for event in recorded.events()]
    return ("stream", *_distinct(events), "ends with", events[-1])


def _event_shape(event: Any) -> Any:
    """With its name, where it has one: two kinds of events may have the same keys."""
    return (
        (event["type"], shape_of(event)) if isinstance(event, dict) and "type" in event else shape_of(event)
    )


def difference(expected: Any, found: Any) -> str:
    """Empty if both are the same shape; else the lines that differ, for a person to read."""
    lines = [pformat(shape, width=100).splitlines() for shape in (expected, found)]
    return "\n".join(unified_diff(*lines, "recorded", "found", lineterm="", n=2))
