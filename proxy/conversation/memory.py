"""Lists of ids by digest in this process: where there is no Valkey, and for what Valkey could not be told.

Invariant: bounded. The digest used longest ago goes first; of a digest's ids, the oldest.
"""

from collections import OrderedDict
from uuid import UUID

MAX_EQUAL = 64  # ids a digest: so many talks that are alike can be told apart
_SIZE = 16


class Memory:
    def __init__(self, max_digests: int) -> None:
        self._max_digests = max_digests
        self._ids: OrderedDict[bytes, bytes] = OrderedDict()  # ids as bytes, one behind the other

    def push(self, digest: bytes, ids: list[UUID]) -> None:
        known = self._ids.pop(digest, b"") + b"".join(id_.bytes for id_ in ids)
        self._ids[digest] = known[-MAX_EQUAL * _SIZE :]
        if len(self._ids) > self._max_digests:
            self._ids.popitem(last=False)

    def newest(self, digest: bytes) -> UUID | None:
        known = self._ids.get(digest)
        return UUID(bytes=known[-_SIZE:]) if known else None

    def pop(self, digest: bytes) -> UUID | None:
        found = self.newest(digest)
        if found is not None:
            self._keep(digest, self._ids[digest][:-_SIZE])
        return found

    def remove(self, digest: bytes, id_: UUID) -> None:
        if known := self._ids.get(digest):
            ids = [known[at : at + _SIZE] for at in range(0, len(known), _SIZE)]
            self._keep(digest, b"".join(one for one in ids if one != id_.bytes))

    def _keep(self, digest: bytes, known: bytes) -> None:
        if known:
            self._ids[digest] = known
        else:
            del self._ids[digest]
