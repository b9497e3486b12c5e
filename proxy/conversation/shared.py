"""Lists of ids by digest that all proxies share: in Valkey, and in this process where Valkey does not answer.

Invariant: a cache. Whatever is lost here is placed by the ledger when the call is written; nothing raises, and nothing
takes longer than the limit. Keys hold digests, values ids: no text of anyone's is in Valkey.
"""

from collections.abc import Sequence
from uuid import UUID

from proxy.conversation.link import Answer, Replies
from proxy.conversation.memory import MAX_EQUAL, Memory
from proxy.conversation.valkey import Valkey

_ID_BYTES = 16


class SharedLists:
    """Newest first: where several talks are alike, the last one answered is the likeliest to go on."""

    def __init__(self, prefix: bytes, valkey: Valkey | None, memory: Memory, lifetime_seconds: int) -> None:
        self._prefix = prefix
        self._valkey = valkey
        self._memory = memory
        self._lifetime = str(lifetime_seconds).encode()

    def push(self, digest: bytes, ids: Sequence[UUID], *, is_again: bool = False) -> Answer | None:
        """`is_again`: they may stand there already, and shall stand there once. None: it is known to this process."""
        key = self._prefix + digest
        commands: list[tuple[bytes, ...]] = (
            [(b"LREM", key, b"0", id_.bytes) for id_ in ids] if is_again else []
        )
        commands.append((b"RPUSH", key, *(id_.bytes for id_ in ids)))
        commands.append((b"LTRIM", key, b"-%d" % MAX_EQUAL, b"-1"))
        commands.append((b"EXPIRE", key, self._lifetime))
        told = self._valkey.ask(*commands) if self._valkey else None
        if told is None:
            self._remember(digest, ids, is_again=is_again)
            return None
        told.add_done_callback(
            lambda done: (
                None if done.cancelled() or done.result() else self._remember(digest, ids, is_again=is_again)
            )
        )
        return told

    def _remember(self, digest: bytes, ids: Sequence[UUID], *, is_again: bool) -> None:
        for id_ in ids if is_again else ():
            self._memory.remove(digest, id_)
        self._memory.push(digest, list(ids))

    async def pop(self, digest: bytes) -> UUID | None:
        if found := self._memory.pop(digest):
            return found
        return _id_in(await self._asked((b"RPOP", self._prefix + digest)))

    async def newest(self, digest: bytes) -> UUID | None:
        if found := self._memory.newest(digest):
            return found
        return _id_in(await self._asked((b"LINDEX", self._prefix + digest, b"-1")))

    def remove(self, digest: bytes, id_: UUID) -> None:
        self._memory.remove(digest, id_)
        if self._valkey:
            self._valkey.ask((b"LREM", self._prefix + digest, b"0", id_.bytes))

    async def _asked(self, command: tuple[bytes, ...]) -> Replies | None:
        asked = self._valkey.ask(command) if self._valkey else None
        return await asked if asked is not None else None


def _id_in(replies: Replies | None) -> UUID | None:
    value = replies[0] if replies else None
    return UUID(bytes=value) if isinstance(value, bytes) and len(value) == _ID_BYTES else None
