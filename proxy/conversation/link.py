"""One connection to Valkey: commands in a row, answers in their order, no task a command.

Invariant: what was asked is answered, or given up (None), within the limit; then the connection is lost, because a late
answer would be taken for the next one's.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import structlog

from proxy.conversation.replies import ReplyReader, ValkeyError, command

log = structlog.get_logger()
Replies: TypeAlias = list[bytes | int | None]
Answer: TypeAlias = asyncio.Future[Replies | None]


@dataclass(slots=True)
class _Asked:
    num_replies: int
    deadline: float
    answer: Answer
    replies: Replies = field(default_factory=list)


class Link(asyncio.Protocol):
    def __init__(self, limit_seconds: float) -> None:
        self._limit_seconds = limit_seconds
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._asked: deque[_Asked] = deque()
        self._reader = ReplyReader()
        self._timer: asyncio.TimerHandle | None = None
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit

    def ask(self, commands: Sequence[Sequence[bytes]]) -> Answer:
        """On its way when this returns."""
        answer: Answer = self._loop.create_future()
        if self._transport is None or self.lost.is_set():
            answer.set_result(None)
            return answer
        self._asked.append(_Asked(len(commands), self._loop.time() + self._limit_seconds, answer))
        self._transport.write(b"".join([command(parts) for parts in commands]))
        if self._timer is None:
            self._timer = self._loop.call_later(self._limit_seconds, self._check)
        return answer

    def data_received(self, data: bytes) -> None:
        try:
            for reply in self._reader.feed(data):
                asked = self._asked[0]
                asked.replies.append(reply)
                if len(asked.replies) == asked.num_replies:
                    self._asked.popleft()
                    _settle(asked.answer, asked.replies)
        except (ValkeyError, IndexError) as error:
            log.warning("valkey_refused", error=repr(error)[:200])
            self.close()

    def _check(self) -> None:
        self._timer = None
        if not self._asked:
            return
        if self._asked[0].deadline <= self._loop.time():
            log.warning("valkey_silent", seconds=self._limit_seconds)
            self.close()
        else:
            self._timer = self._loop.call_at(self._asked[0].deadline, self._check)

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self.close()

    def close(self) -> None:
        self.lost.set()
        if self._transport is not None:
            self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._asked:
            _settle(self._asked.popleft().answer, None)


def _settle(answer: Answer, replies: Replies | None) -> None:
    if not answer.done():  # who asked may be gone
        answer.set_result(replies)
