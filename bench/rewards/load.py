"""The load generator: a process of its own, on asyncio's protocols, so that it costs little beside what it measures.

`python -m bench.rewards.load '{"port": …}'` reads the replies' ids from its input, one a line, and prints an Outcome.
Without a pace each connection posts again when it is answered; with one, posts leave at their time, whoever waits.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import cast

import uvloop

from bench.gateway.wire import body_length, head_end
from bench.rewards.posts import reward_post


@dataclass(frozen=True)
class Load:
    port: int
    num_connections: int
    seconds: float
    per_second: float = 0.0  # 0: as many as are answered
    first_number: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass
class Outcome:
    """How long each answered post took, from the moment it was due, and how many were answered with what."""

    seconds: float = 0.0
    latency_ms: list[float] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=dict)

    @property
    def num_recorded(self) -> int:
        return self.answers.get("recorded", 0)

    @property
    def num_others(self) -> int:
        return sum(self.answers.values()) - self.num_recorded


class Client(asyncio.Protocol):
    """One connection, one post at a time."""

    def __init__(self) -> None:
        self._answered: asyncio.Future[bytes] | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._whole = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    async def post(self, request: bytes) -> bytes:
        assert self._transport
        self._whole, self._answered = b"", asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answered

    def data_received(self, data: bytes) -> None:
        self._whole += data
        begin = head_end(self._whole)
        if begin and len(self._whole) >= begin + body_length(self._whole[:begin]):
            assert self._answered
            self._answered.set_result(self._whole)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if self._answered and not self._answered.done():
            self._answered.set_result(b"")


def answer_of(whole: bytes) -> str:
    """`recorded`, `unchanged`, `early`; else the status line."""
    line, _, _ = whole.partition(b"\r\n")
    if not line.startswith(b"HTTP/1.1 200"):
        return line.decode(errors="replace") or "closed"
    return str(json.loads(whole[head_end(whole) :])["status"])


class Run:
    def __init__(self, load: Load, targets: list[str]) -> None:
        self._load = load
        self._targets = targets
        self._number = load.first_number
        self._answers: Counter[str] = Counter()
        self.outcome = Outcome()

    async def drive(self) -> Outcome:
        load, loop = self._load, asyncio.get_running_loop()
        self._began = time.perf_counter()
        clients = [
            (await loop.create_connection(Client, "127.0.0.1", load.port))[1]
            for _ in range(load.num_connections)
        ]
        self._began = time.perf_counter()
        await asyncio.gather(*(self._posts(client) for client in clients))
        self.outcome.seconds = time.perf_counter() - self._began
        self.outcome.answers = dict(self._answers)
        return self.outcome

    async def _posts(self, client: Client) -> None:
        while True:
            number, due = self._number, self._due(self._number)
            if due >= self._began + self._load.seconds:
                return
            self._number += 1
            await asyncio.sleep(due - time.perf_counter())
            whole = await client.post(reward_post(self._targets, number))
            self.outcome.latency_ms.append((time.perf_counter() - due) * 1000)
            self._answers[answer_of(whole)] += 1
            if not whole:
                return

    def _due(self, number: int) -> float:
        if not self._load.per_second:
            return time.perf_counter()
        return self._began + (number - self._load.first_number) / self._load.per_second


if __name__ == "__main__":
    found = uvloop.run(Run(Load(**json.loads(sys.argv[1])), sys.stdin.read().split()).drive())
    print(json.dumps(asdict(found)))
