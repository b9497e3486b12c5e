"""How many bytes of running requests this process holds. Many large bodies at once are refused, never swapped."""

from typing import Self

from proxy.errors import OverloadedError

_FREE_BYTES = 64 << 10  # what every request may hold: the limit is for large ones


class Room:
    """What one request holds, from entry to exit."""

    __slots__ = ("_all", "num_bytes")

    def __init__(self, all_bodies: "OpenBodies") -> None:
        self._all = all_bodies
        self.num_bytes = 0

    def take(self, num_bytes: int) -> None:
        """Raises OverloadedError."""
        self.num_bytes += num_bytes
        self._all.num_bytes += num_bytes
        if self.num_bytes > _FREE_BYTES and self._all.num_bytes > self._all.max_bytes:
            raise OverloadedError(retry_after=1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._all.num_bytes -= self.num_bytes


class OpenBodies:
    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0

    def room(self) -> Room:
        """For as long as the request runs."""
        return Room(self)
