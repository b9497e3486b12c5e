"""Token ids as the text in which vLLM wrote them: long prompts reach Postgres without one Python integer each (I3).

It is a sequence of integers like any list, and equal to the list of them; only what asks for single ids pays for it.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, overload

from msgspec import json


class TokenIds(Sequence[int]):
    """Example: TokenIds(b"1,5,9") == [1, 5, 9]. The text is what stands between the brackets of a JSON array.

    `length` is the number of ids where vLLM said it (`usage.prompt_tokens`), which saves counting them.
    """

    __slots__ = ("_digest", "_length", "text")

    def __init__(self, text: bytes, length: int | None = None) -> None:
        self.text = text.translate(None, b" \t\r\n") if b" " in text or b"\n" in text else text
        self._length = length
        self._digest: Any = None

    @classmethod
    def of(cls, ids: Sequence[int]) -> "TokenIds":
        return ids if isinstance(ids, cls) else cls(json.encode(list(ids))[1:-1])

    def __len__(self) -> int:
        if self._length is None:
            self._length = self.text.count(b",") + 1 if self.text else 0
        return self._length

    def __bool__(self) -> bool:
        return bool(self.text)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> "TokenIds": ...
    def __getitem__(self, at: int | slice) -> "int | TokenIds":
        if isinstance(at, int):
            return self.to_list()[at]
        start, stop, step = at.indices(len(self))
        if step != 1:
            return TokenIds.of(self.to_list()[at])
        if (start, stop) == (0, len(self)):
            return self
        begin = self._offset(start)
        return TokenIds(self.text[begin : max(begin, self._offset(stop) - 1)])

    def __iter__(self) -> Iterator[int]:
        return iter(self.to_list())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TokenIds):
            return self.text == other.text
        return self.to_list() == other

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"TokenIds({self.text!r})"

    def to_list(self) -> list[int]:
        return json.decode(b"[%b]" % self.text, type=list[int])

    def digest(self) -> Any:
        """A SHA-256 of the text so far, to be continued: what several digests begin with is read once."""
        if self._digest is None:
            self._digest = hashlib.sha256(self.text)
        return self._digest.copy()

    def _offset(self, index: int) -> int:
        """Where id number `index` begins; for the number after the last, one beyond a comma that is not there."""
        length = len(self)
        if index == 0 or index >= length:
            return len(self.text) + 1 if index else 0
        at = len(self.text) * index // length  # a guess, since ids are of about equal length; then step to it
        missing = index - self.text.count(b",", 0, at)
        for _ in range(missing):
            at = self.text.index(b",", at) + 1
        for _ in range(1 - missing if missing <= 0 else 0):
            at = self.text.rindex(b",", 0, at)
        return at if missing > 0 else at + 1


def tokens_digest(*parts: Sequence[int]) -> bytes:
    """SHA-256 of all ids as decimal text with commas between: the same for ids as text and as integers."""
    texts = [TokenIds.of(part) for part in parts if len(part)]
    digest = texts[0].digest() if texts else hashlib.sha256()
    for ids in texts[1:]:
        digest.update(b"," + ids.text)
    result: bytes = digest.digest()
    return result
