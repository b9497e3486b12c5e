"""Edits of JSON text by span: what is not edited stays the bytes that were there.

Invariant: key order, number text, escapes, white space and unknown members survive any edit, because nothing is
ever serialised again. CPython's own C scanner finds the spans and yields the parsed values in the same pass.
Bytes that are no UTF-8 survive too (surrogateescape).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from json.decoder import JSONDecoder, scanstring  # type: ignore[attr-defined]  # typeshed hides the scanner
from typing import Any, NamedTuple, TypeAlias, cast

Edit: TypeAlias = tuple[int, int, str]

Match: TypeAlias = Callable[[str, int], "re.Match[str] | None"]

_scan = cast("Callable[[str, int], tuple[Any, int]]", JSONDecoder().scan_once)  # type: ignore[attr-defined]
_space: Match = re.compile(r"[ \t\n\r]*").match
_plain_key: Match = re.compile(r'"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*').match
_quote: Match = re.compile(r'"').match
_colon: Match = re.compile(r"[ \t\n\r]*:[ \t\n\r]*").match
_open_object: Match = re.compile(r"[ \t\n\r]*\{[ \t\n\r]*").match
_open_array: Match = re.compile(r"[ \t\n\r]*\[[ \t\n\r]*").match
_comma_or_close: Match = re.compile(r"[ \t\n\r]*[,}]").match
_comma_or_close_array: Match = re.compile(r"[ \t\n\r]*[,\]]").match
_end_of_object: Match = re.compile(r"[ \t\n\r]*\}[ \t\n\r]*\Z").match


class Member(NamedTuple):
    """`"key": value` of an object: text[start:end], its value at text[value_start:end]."""

    key: str
    start: int
    value_start: int
    end: int
    value: Any


def decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _matched(pattern: Match, text: str, at: int, missing: str) -> int:
    match = pattern(text, at)
    if match is None:
        raise ValueError(f"{missing} is missing at character {at}")
    return match.end()


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        return _scan(text, at)
    except StopIteration as end:
        raise ValueError(f"a value is missing at character {end.value}") from None


def members(text: str, at: int = 0) -> list[Member]:
    """The members of the object that begins at `at` (white space may stand before it). ValueError if none does."""
    at = _matched(_open_object, text, at, "'{'")
    found: list[Member] = []
    if text[at : at + 1] == "}":
        return found
    while True:
        start = at
        if match := _plain_key(text, at):
            key, value_start = match[1], match.end()
        else:
            key, value_start = _key(text, at)
        value, end = _value(text, value_start)
        found.append(Member(key, start, value_start, end, value))
        following = text[end : end + 2]
        if following[:1] == "," and following[1:] == '"':  # as programs write it
            at = end + 1
            continue
        at = _matched(_comma_or_close, text, end, "',' or '}'")
        if text[at - 1] == "}":
            return found
        at = _matched(_space, text, at, "")


def _key(text: str, at: int) -> tuple[str, int]:
    """A key with escapes in it, or none at all."""
    key, at = scanstring(text, _matched(_quote, text, at, "a key"), True)
    return key, _matched(_colon, text, at, "':'")


def elements(text: str, at: int) -> list[tuple[int, int]]:
    """The span of each element of the array that begins at `at`."""
    at = _matched(_open_array, text, at, "'['")
    found: list[tuple[int, int]] = []
    if text[at : at + 1] == "]":
        return found
    while True:
        _, end = _value(text, at)
        found.append((at, end))
        at = _matched(_comma_or_close_array, text, end, "',' or ']'")
        if text[at - 1] == "]":
            return found
        at = _matched(_space, text, at, "")


def nested(text: str, at: int, path: Sequence[str]) -> Iterator[Member]:
    """The members that a path leads to from the object at `at`; `*` stands for every object of an array.

    Example: ("output", "*", "model") finds `model` in each object of the array `output`.
    """
    key, *rest = path
    for member in members(text, at):
        if member.key != key:
            continue
        if not rest:
            yield member
        elif rest[0] != "*":
            if isinstance(member.value, dict):
                yield from nested(text, member.value_start, rest)
        elif isinstance(member.value, list):
            spans = zip(elements(text, member.value_start), member.value, strict=True)
            yield from (
                found
                for (start, _), item in spans
                if isinstance(item, dict)
                for found in nested(text, start, rest[1:])
            )


def document(text: str) -> list[Member]:
    """The members of a text that is one JSON object and nothing else. ValueError otherwise."""
    found = members(text)
    end = found[-1].end if found else _matched(_open_object, text, 0, "'{'")
    _matched(_end_of_object, text, end, "the end of the text")
    return found


def cuts(all_members: Sequence[Member], keys: Iterable[str]) -> Iterator[Edit]:
    """The edits that remove the members named, each with one of its commas."""
    doomed = frozenset(keys)
    has_kept = False
    for i, member in enumerate(all_members):
        if member.key not in doomed:
            has_kept = True
        elif has_kept:
            yield all_members[i - 1].end, member.end, ""
        else:
            is_last = i + 1 == len(all_members)
            yield member.start, member.end if is_last else all_members[i + 1].start, ""


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with each span replaced. Spans must not overlap."""
    pieces: list[str] = []
    at = 0
    for start, end, replacement in sorted(edits):
        pieces += text[at:start], replacement
        at = end
    pieces.append(text[at:])
    return "".join(pieces)
