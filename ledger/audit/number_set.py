"""A set of whole numbers as ranges: as small as it has holes, whatever it holds.

Example: {1, 2, 3, 7} is [1,4) and [7,8), written as Postgres writes an int8multirange: {[1,4),[7,8)}. Pure.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

_RANGE = re.compile(r"\[(-?\d+),(-?\d+)\)")


class NumberSet:
    __slots__ = ("_ends", "_starts")

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for number in numbers:
            self.add(number)

    @classmethod
    def up_to(cls, last: int) -> "NumberSet":
        """1 … last."""
        found = cls()
        if last > 0:
            found.add(1, last + 1)
        return found

    @classmethod
    def parse(cls, text: str) -> "NumberSet":
        """What Postgres says an int8multirange is."""
        found = cls()
        for start, end in _RANGE.findall(text):
            found.add(int(start), int(end))
        return found

    def add(self, first: int, end: int | None = None) -> None:
        """`first`, or all of [first, end)."""
        end = first + 1 if end is None else end
        low, high = bisect_left(self._ends, first), bisect_right(self._starts, end)
        if low < high:
            first, end = min(first, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high], self._ends[low:high] = [first], [end]

    def remove(self, first: int, end: int | None = None) -> None:
        """`first`, or all of [first, end), where they are in it."""
        end = first + 1 if end is None else end
        low, high = bisect_right(self._ends, first), bisect_left(self._starts, end)
        if low >= high:
            return
        left, right = (self._starts[low], first), (end, self._ends[high - 1])
        kept = [(start, stop) for start, stop in (left, right) if start < stop]
        self._starts[low:high] = [start for start, _ in kept]
        self._ends[low:high] = [stop for _, stop in kept]

    def ranges(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    def highest(self) -> int:
        """0 where it is empty."""
        return self._ends[-1] - 1 if self._ends else 0

    def __or__(self, other: "NumberSet") -> "NumberSet":
        found = self.copy()
        for first, end in other.ranges():
            found.add(first, end)
        return found

    def __sub__(self, other: "NumberSet") -> "NumberSet":
        found = self.copy()
        for first, end in other.ranges():
            found.remove(first, end)
        return found

    def __and__(self, other: "NumberSet") -> "NumberSet":
        return self - (self - other)

    def copy(self) -> "NumberSet":
        found = NumberSet()
        found._starts, found._ends = self._starts.copy(), self._ends.copy()
        return found

    def __len__(self) -> int:
        return sum(self._ends) - sum(self._starts)

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number < self._ends[at]

    def __iter__(self) -> Iterator[int]:
        for first, end in self.ranges():
            yield from range(first, end)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumberSet) and list(self.ranges()) == list(other.ranges())

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __str__(self) -> str:
        return "{%s}" % ",".join(f"[{first},{end})" for first, end in self.ranges())  # noqa: UP031 - braces

    def __repr__(self) -> str:
        return f"NumberSet({self})"
