"""How soon SQL sees a row: from the last byte of the answer to a SELECT that finds the exchange, by the real proxy.

Calls go out at a steady pace, whoever waits for them; another thread asks Postgres every few milliseconds.
"""

import asyncio
import threading
import time
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
_NEW = "SELECT id FROM exchanges WHERE id > %s ORDER BY id"
_PROMPT = "Please say what should happen with the order. " * 80


@dataclass
class Seen:
    """Moments by exchange id: answered, and visible to SQL."""

    answered: dict[UUID, float] = field(default_factory=dict)
    visible: dict[UUID, float] = field(default_factory=dict)
    num_failed: int = 0

    def delays_ms(self) -> list[float]:
        """Sorted. A row that never came is as late as the wait for it was long."""
        late = {id_: at + _SETTLE_SECONDS for id_, at in self.answered.items()}
        seen = late | self.visible
        return sorted(1000 * max(0.0, seen[id_] - at) for id_, at in self.answered.items())


def measure(directory: Path, ledger: Ledger, rate: float, seconds: float) -> Seen:
    with (
        _running_mock(directory) as upstream,
        running_slipstream(directory, upstream, ledger, name="visible") as proxy,
    ):
        asyncio.run(_load(proxy.port, rate, _WARM_SECONDS, Seen()))
        time.sleep(_WARM_SECONDS)
        seen, is_over = Seen(), threading.Event()
        looking = threading.Thread(target=_look, args=(ledger.url, seen, is_over))
        looking.start()
        asyncio.run(_load(proxy.port, rate, seconds, seen))
        deadline = time.monotonic() + _SETTLE_SECONDS
        while seen.answered.keys() - seen.visible.keys() and time.monotonic() < deadline:
            time.sleep(0.05)
        is_over.set()
        looking.join()
    return seen


def _look(url: str, seen: Seen, is_over: threading.Event) -> None:
    """Ids come in batches, and those of one batch in any order: what is new is looked for two seconds back."""
    with psycopg.connect(url, autocommit=True) as connection:
        while not is_over.is_set():
            since = int((time.time() - 2) * 1000)
            rows = connection.execute(_NEW, (UUID(int=since << 80),)).fetchall()
            now = time.perf_counter()
            for (id_,) in rows:
                seen.visible.setdefault(id_, now)
            time.sleep(_POLL_SECONDS)


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
    seen.answered[UUID(answer["id"].removeprefix("chatcmpl-"))] = time.perf_counter()


@contextmanager
def _running_mock(directory: Path) -> Iterator[int]:
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
