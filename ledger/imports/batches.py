"""A batch's output beside its input: answers get the question that has their custom_id. The requests are held in memory."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ledger.imports.lines import BadLineError, Line
from ledger.imports.messages import has_no_question

Requests = Mapping[str, dict[str, Any]]


def requests_of(lines: Iterable[Line]) -> Requests:
    """The bodies of a batch's input file, by custom_id. What is no request is passed over."""
    values = (line.value for line in lines if not isinstance(line.value, BadLineError))
    return {
        value["custom_id"]: value["body"]
        for value in values
        if isinstance(value.get("custom_id"), str) and isinstance(value.get("body"), dict)
    }


def joined(lines: Iterable[Line], requests: Requests) -> Iterator[Line]:
    """Lines that have no question by nature, with their request; an answer whose request is missing stays without."""
    for line in lines:
        value = line.value
        body = None if isinstance(value, BadLineError) else requests.get(str(value.get("custom_id")))
        if body is None or isinstance(value, BadLineError) or not has_no_question(value):
            yield line
        else:
            yield Line(line.number, {**value, "body": body})
