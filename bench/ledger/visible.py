"""How soon SQL sees a row: from the last byte of the answer to a SELECT that finds the exchange, by the real proxy.

Calls go out at a steady pace, whoever waits for them; another thread asks Postgres every few milliseconds.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import psycopg

from bench.gateway.children import environment, python, started
from bench.gateway.slipstream import Ledger, running_slipstream
from bench.ledger.calls import NUM_COMPLETION_TOKENS
from slipstream.http import ask_http
from slipstream.local.child import ChildSpec
from slipstream.local.ports import free_ports

_POLL_SECONDS = 0.005
_SETTLE_SECONDS = 10.0
_WARM_SECONDS = 1.0
_NEW = "SELECT id FROM exchanges WHERE id >= %s"
_PROMPT = "Please say what should happen with the order. " * 80


@dataclass
class Seen:
    """Moments by exchange id: answered, and visible to SQL."""

    answered: dict[UUID, float] = field(default_factory=dict)
    visible: dict[UUID, float] = field(default_factory=dict)
    asked: deque[UUID] = field(default_factory=deque)  # answered, not yet looked for
    num_failed: int = 0
    seconds: float = 0.0  # until the last answer
    deadline: float = math.inf  # for the last rows

    def delays_ms(self) -> list[float]:
        """Sorted. A row that never came is as late as the wait for it was long."""
        late = {id_: at + _SETTLE_SECONDS for id_, at in self.answered.items()}
        seen = late | self.visible
        return sorted(1000 * max(0.0, seen[id_] - at) for id_, at in self.answered.items())


def measure(directory: Path, ledger: Ledger, rate: float, seconds: float) -> Seen:
    with (
        running_mock(directory) as upstream,
        running_slipstream(directory, upstream, ledger, name="visible") as proxy,
    ):
        asyncio.run(_load(proxy.port, rate, _WARM_SECONDS, Seen()))
        time.sleep(_WARM_SECONDS)
        seen, is_over = Seen(), threading.Event()
        looking = threading.Thread(target=_look, args=(ledger.url, seen, is_over))
        looking.start()
        began = time.perf_counter()
        asyncio.run(_load(proxy.port, rate, seconds, seen))
        seen.seconds = time.perf_counter() - began
        seen.deadline = time.perf_counter() + _SETTLE_SECONDS
        is_over.set()
        looking.join()
    return seen


def _look(url: str, seen: Seen, is_over: threading.Event) -> None:
    """Asks from the oldest id on that is answered and not seen: few rows, so that looking costs little."""
    missing = set[UUID]()
    with psycopg.connect(url, autocommit=True) as connection:
        while missing or seen.asked or not is_over.is_set():
            while seen.asked:
                missing.add(seen.asked.popleft())
            if missing:
                rows = connection.execute(_NEW, (min(missing),)).fetchall()
                seen.visible |= dict.fromkeys((id_ for (id_,) in rows if id_ in missing), time.perf_counter())
                missing -= seen.visible.keys()
            time.sleep(_POLL_SECONDS)
            if time.perf_counter() > seen.deadline:
                return


async def _load(port: int, rate: float, seconds: float, seen: Seen) -> None:
    began, calls = time.perf_counter(), set[asyncio.Task[None]]()
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(began + number / rate - time.perf_counter())
            calls.add(asyncio.create_task(_call(session, url, number, seen)))
        await asyncio.gather(*calls)


async def _call(session: aiohttp.ClientSession, url: str, number: int, seen: Seen) -> None:
    messages = [{"role": "user", "content": f"{number} {time.time()} {_PROMPT}"}]
    body: dict[str, Any] = {"model": "gpt-4o", "messages": messages, "max_tokens": NUM_COMPLETION_TOKENS}
    try:
        async with session.post(url, json=body) as reply:
            answer = await reply.json()
    except (aiohttp.ClientError, OSError):
        answer = {}
    if "id" not in answer:
        seen.num_failed += 1
        return
    id_ = UUID(answer["id"].removeprefix("chatcmpl-"))
    seen.answered[id_] = time.perf_counter()
    seen.asked.append(id_)


@contextmanager
def running_mock(directory: Path) -> Iterator[int]:
    (port,) = free_ports(1)
    command = python("-m", "bench.gateway.upstream", str(port))
    spec = ChildSpec(
        "mock",
        "Its log says why.",
        lambda: ask_http(f"http://127.0.0.1:{port}/health"),
        command,
        environment(),
    )
    with started(spec, directory):
        yield port
