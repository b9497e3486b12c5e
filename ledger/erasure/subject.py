"""Who is erased: a user of a project, or a trajectory, by any of its names; kept as digests alone.

Invariant: `users_of` finds a user wherever the indexes of `ledger.tables.exchanges.USERS` do, and in the attribution,
which outlives a request that is lost.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from ledger.drafts import wanted_trajectory_id
from ledger.frozen import dataclass
from ledger.identifiers import choice_id, parse_id
from ledger.records import CallRecord
from ledger.rewards.targets import canonical
from ledger.text import to_storable_text
from ledger.vocabulary import ErasureSubject

_LEAST_PLAIN = 4  # bytes


@dataclass(frozen=True, slots=True)
class Subject:
    """Example: Subject(USER, "anna@example.org"), Subject(TRAJECTORY, "run-7")."""

    kind: ErasureSubject
    name: str

    @property
    def storable(self) -> str:
        """The name as columns hold it."""
        return canonical(self.name) if self.kind is ErasureSubject.TRAJECTORY else to_storable_text(self.name)

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(f"{self.kind}\0{self.storable}".encode()).digest()

    @property
    def needles(self) -> list[bytes]:
        """How the name lies in bytes that cannot be read any more. A short one only as a JSON string."""
        quoted = [
            json.dumps(self.name).encode(),
            json.dumps(self.name, ensure_ascii=False).encode("utf-8", "replace"),
        ]
        plain = self.name.encode("utf-8", "replace")
        parsed = parse_id(self.name)
        ids = [parsed.bytes, parsed.hex.encode()] if parsed else []
        return [*quoted, *ids, *([plain] if len(plain) >= _LEAST_PLAIN else [])]


def trajectory_digest(name: str) -> bytes:
    return Subject(ErasureSubject.TRAJECTORY, name).digest


def digests_of(call: CallRecord) -> set[bytes]:
    """Every subject that this call belongs to. Its request must have been derived."""
    users = (Subject(ErasureSubject.USER, name).digest for name in users_of(call))
    return {*users, *(trajectory_digest(name) for name in _names_of(call))}


def users_of(call: CallRecord) -> set[str]:
    """Whom the call names as its user, as text."""
    metadata = call.request.get("metadata")
    named = [call.attribution.end_user, call.request.get("user"), call.request.get("safety_identifier")]
    named.append(metadata.get("user_id") if isinstance(metadata, dict) else None)
    return set(_texts(named))


def _texts(values: Iterable[Any]) -> Iterator[str]:
    """Numbers as Postgres writes them."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, int) and not isinstance(value, bool):
            yield str(value)


def _names_of(call: CallRecord) -> Iterator[str]:
    yield str(call.attribution.trajectory_id)
    for choice in call.choices or ():
        yield str(_of_choice(call, choice.index))
        yield str(wanted_trajectory_id(call, choice.index))
    if name := call.attribution.external_id:
        yield name
        yield from (f"{name}#{choice.index}" for choice in call.choices if choice.index)


def _of_choice(call: CallRecord, index: int) -> UUID:
    return choice_id(call.call_id, index)
