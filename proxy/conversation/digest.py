"""A conversation's digest: SHA-256 over its normalised messages, message after message, rooted in who talks.

Invariant: pure, one pass; what the digest is made of is unambiguous (every piece is preceded by its length), and it
holds no text.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

_Hash = Any  # hashlib's objects have no public type


class Message(NamedTuple):
    """One message as it counts. `marks` are its calls, results, media and names, flattened, each behind its kind.

    Example: ("assistant", "", ("call", "call_1", "weather", '{"city":"Paris"}')).
    """

    role: str
    text: str
    marks: tuple[str, ...] = ()


class Conversation:
    """The messages of one request. `continues` is the digest up to its last assistant turn; None = it has none."""

    __slots__ = ("_hash", "continues")

    def __init__(self, root: Sequence[str], messages: Iterable[Message]) -> None:
        self._hash = hashlib.sha256()
        self.continues: bytes | None = None
        _add(self._hash, root)
        for message in messages:
            _add_message(self._hash, message)
            if message.role == "assistant":
                self.continues = self._hash.digest()

    def answered(self, answer: Iterable[Message]) -> bytes:
        """The digest of all messages and this answer: what the next turn will look for."""
        whole = self._hash.copy()
        for message in answer:
            _add_message(whole, message)
        return bytes(whole.digest())


def _add_message(into: _Hash, message: Message) -> None:
    role, text, marks = message
    _add(into, (role, *marks, text.strip()) if marks else (role, text.strip()))


def _add(into: _Hash, pieces: Sequence[str]) -> None:
    lengths = ",".join([str(len(piece)) for piece in pieces])
    into.update(f"{lengths};{''.join(pieces)}".encode("utf-8", "surrogatepass"))
