"""The clients: so many calls a second, half of them streamed, some cancelled, each written down with what became of it.

A worker makes its calls one after the other, as turns of one trajectory of its own, always at the same proxy.
Invariant: every call that was begun is in `sent`, with the fate that its client could see.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.faults.fate import Fate, Sent
from bench.gateway.answers import fault_of_stream, fault_of_whole
from bench.gateway.replies import dumps
from bench.gateway.wire import LAST_CHUNK, body_length, head_end, is_chunked

NUM_TOKENS = 24
_CANCELLED = 0.15  # of all calls
_LIMIT_SECONDS = 30.0
_PERIOD_SECONDS = 0.5


@dataclass(frozen=True)
class Plan:
    """`round_` begins all its request ids."""

    round_: str
    ports: Sequence[int]
    calls_per_second: float = 50
    prompt_bytes: int = 2000
    seed: int = 0

    @property
    def num_workers(self) -> int:
        return max(1, round(self.calls_per_second * _PERIOD_SECONDS))


@dataclass
class Load:
    """Runs until `stop`; then waits for the calls that run."""

    plan: Plan
    sent: list[Sent] = field(default_factory=list)
    _is_stopping: bool = False

    async def run(self) -> None:
        await asyncio.gather(*(self._work(worker) for worker in range(self.plan.num_workers)))

    def stop(self) -> None:
        self._is_stopping = True

    async def _work(self, worker: int) -> None:
        loop, chance = (
            asyncio.get_running_loop(),
            random.Random(f"{self.plan.seed}.{self.plan.round_}.{worker}"),
        )
        at = loop.time() + chance.random() * _PERIOD_SECONDS
        number = 0
        while not self._is_stopping:
            await asyncio.sleep(at - loop.time())
            at = max(at + _PERIOD_SECONDS, loop.time())
            number += 1
            call = _Call(self.plan, worker, number, chance)
            self.sent.append(await call.run())


class _Call:
    """One request on one connection, which a client's pool would have opened before."""

    def __init__(self, plan: Plan, worker: int, number: int, chance: random.Random) -> None:
        self._plan, self._worker, self._number = plan, worker, number
        self._port = plan.ports[worker % len(plan.ports)]
        self._is_streamed = (worker // len(plan.ports) + number) % 2 == 0
        self._cancel_after = 0.01 + 0.3 * chance.random() if chance.random() < _CANCELLED else None
        self._data = b""

    async def run(self) -> Sent:
        try:
            async with asyncio.timeout(_LIMIT_SECONDS):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except (OSError, TimeoutError) as error:
            return self._became(Fate.UNANSWERED, repr(error))
        try:
            writer.write(self._request())
            await writer.drain()
            limit = self._cancel_after or _LIMIT_SECONDS
            async with asyncio.timeout(limit):
                await self._read(reader)
        except TimeoutError:
            if self._cancel_after is None:
                return self._became(Fate.CUT if self._head() else Fate.UNANSWERED, "no end in time")
            return self._became(Fate.CANCELLED if self._head() else Fate.ABANDONED)
        except OSError as error:
            return self._became(Fate.CUT if self._head() else Fate.UNANSWERED, repr(error))
        finally:
            writer.transport.abort()
        return self._judged()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while not self._is_whole() and (data := await reader.read(1 << 16)):
            self._data += data

    def _head(self) -> bytes:
        return self._data[: head_end(self._data)]

    def _is_whole(self) -> bool:
        if not (head := self._head()):
            return False
        if is_chunked(head):
            return self._data.endswith(LAST_CHUNK)
        return len(self._data) >= len(head) + body_length(head)

    def _judged(self) -> Sent:
        head = self._head()
        if not head:
            return self._became(Fate.UNANSWERED, "closed before the head")
        if not head.startswith(b"HTTP/1.1 200 "):
            return self._became(Fate.REFUSED, self._data[:200].decode(errors="replace"))
        fault_of = fault_of_stream if is_chunked(head) else fault_of_whole
        fault = (
            fault_of(head, self._data[len(head) :], NUM_TOKENS, is_parsed=True) if self._is_whole() else "cut"
        )
        return self._became(Fate.CUT if fault else Fate.ANSWERED, fault or "")

    def _became(self, fate: Fate, detail: str = "") -> Sent:
        head = self._head().lower()
        is_captured = b"x-captured: true" in head if head.startswith(b"http/1.1 200 ") else None
        return Sent(self._request_id, self._worker, self._number, self._port, fate, is_captured, detail)

    @property
    def _request_id(self) -> str:
        return f"{self._plan.round_}.{self._worker}.{self._number}"

    def _request(self) -> bytes:
        text = f"{self._request_id} " + "what next? " * (self._plan.prompt_bytes // 11)
        body = dumps(
            {
                "model": "gpt-4o",
                "messages": [{"role": "user", "content": text}],
                "max_tokens": NUM_TOKENS,
                **({"stream": True} if self._is_streamed else {}),
            }
        ).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            f"x-request-id: {self._request_id}\r\nx-trajectory-id: {self._plan.round_}.{self._worker}\r\n"
            f"authorization: Bearer sk-bench\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body
