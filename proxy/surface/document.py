"""The body of a request, one JSON object: its values, and how it is written anew with a few members set or cut.

Invariant: what is not set or cut stays the client's bytes. Bodies as programs write them are edited at two marks; any
other is scanned, member by member, with the same result (a property test holds both against each other).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from proxy.errors import InvalidRequestError
from proxy.splice import Edit, Member, cuts, decoded, document, edited, encoded

_HUGE = 1 << 63  # beyond it Postgres has no bigint
_NO = {"", "0", "f", "false", "n", "no", "off"}
_SPACE = b" \t\r\n"
_MODEL = b'"model"'
_MODEL_MEMBER = re.compile(rb'"model"[ \t\r\n]*:[ \t\r\n]*("[^"\\]*"|null)').match
_ESCAPED_LETTER = b"\\u006"  # a key may be spelled with escapes: such a body is scanned
_read = msgspec.json.Decoder().decode


@dataclass(slots=True)
class Document:
    raw: bytes
    values: dict[str, Any]
    _members: list[Member] | None = None

    @classmethod
    def parse(cls, raw: bytes) -> "Document":
        """Raises InvalidRequestError for anything but a JSON object."""
        try:
            values = _read(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return cls._scanned(raw)
        return cls(raw, values) if isinstance(values, dict) else cls._scanned(raw)

    @classmethod
    def _scanned(cls, raw: bytes) -> "Document":
        """NaN, lone surrogates and bytes that are no UTF-8 pass here."""
        try:
            found = document(decoded(raw))
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise InvalidRequestError(f"The body is not a JSON object: {reason}.") from error
        return cls(raw, {member.key: member.value for member in found}, found)

    def number(self, name: str, default: float | None = None) -> float | None:
        """A sampling parameter as vLLM will read it ("0.2" and true are numbers to pydantic); else `default`."""
        value = self.values.get(name)
        if value is None:
            return default
        try:
            number = float(value) if isinstance(value, int | float | str) else math.nan
        except (ValueError, OverflowError):
            return default
        return number if abs(number) < _HUGE else default

    def flag(self, name: str) -> bool:
        """As vLLM reads it: "false", "0" and their kin are no."""
        value = self.values.get(name)
        return value.strip().lower() not in _NO if isinstance(value, str) else bool(value)

    def integer(self, name: str) -> int | None:
        value = self.values.get(name)
        is_storable = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _HUGE
        return value if is_storable else None

    def rewritten(self, members: Mapping[str, str], doomed: frozenset[str] = frozenset()) -> bytes:
        """The bytes with these members set to these JSON texts (added at the end where they are missing), and the
        doomed ones cut.
        """
        values = self.values
        is_plain = not doomed & values.keys() and members.keys() & values.keys() <= {"model"}
        rewritten = self._at_marks(members) if is_plain else None
        return self._by_span(members, doomed) if rewritten is None else rewritten

    def _at_marks(self, members: Mapping[str, str]) -> bytes | None:
        """None if it cannot be told without a scan where `model` stands."""
        raw, at = self.raw, 0
        pieces: list[bytes] = []
        if "model" in self.values and "model" in members:
            found = _MODEL_MEMBER(raw, raw.find(_MODEL)) if raw.count(_MODEL) == 1 else None
            if found is None or _ESCAPED_LETTER in raw:
                return None
            pieces += raw[: found.start(1)], members["model"].encode()
            at = found.end(1)
        missing = "".join(f',"{key}":{value}' for key, value in members.items() if key not in self.values)
        brace = raw.rindex(b"}")
        end = len(raw[:brace].rstrip(_SPACE))
        if end < at or not self.values:
            return None
        return b"".join([*pieces, raw[at:end], missing.encode(), raw[end:]])

    def _by_span(self, members: Mapping[str, str], doomed: frozenset[str]) -> bytes:
        text = decoded(self.raw)
        found = self._members if self._members is not None else document(text)
        edits: list[Edit] = [
            (m.value_start, m.end, members[m.key]) for m in found if m.key in members and m.key not in doomed
        ]
        kept = {member.key for member in found} - doomed
        edits += cuts(found, doomed)
        missing = ",".join(f'"{key}":{value}' for key, value in members.items() if key not in kept)
        end = found[-1].end if found else text.index("{") + 1
        edits.append((end, end, f",{missing}" if missing and kept else missing))
        return encoded(edited(text, edits))
