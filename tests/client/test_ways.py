"""By which connections a client sends: those that it was given, and one pool of its own for all threads."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from slipstream import AsyncClient, Client
from slipstream.client import transport
from tests.client.conftest import NOWHERE


def seen_by(paths: list[str]) -> Callable[[httpx2.Request], httpx2.Response]:
    def answer(request: httpx2.Request) -> httpx2.Response:
        paths.append(request.url.path)
        return httpx2.Response(200, json={"status": "recorded", "id": "e"})

    return answer


@pytest.fixture
def paths() -> list[str]:
    return []


@pytest.fixture
def given(paths: list[str]) -> httpx2.AsyncClient:
    """As of an operator with a proxy and a CA of their own; nothing else leads anywhere."""
    return httpx2.AsyncClient(transport=httpx2.MockTransport(seen_by(paths)))


async def test_a_trajectory_s_reward_goes_by_the_http_client_that_was_given(
    given: httpx2.AsyncClient, paths: list[str]
) -> None:
    client = AsyncClient(NOWHERE, http_client=given, max_retries=0)
    async with client.trajectory("a") as t:
        assert t.reward(1).status == "queued"
    assert ([result.status for result in t.results], len(paths)) == (["recorded"], 1)


async def test_each_call_of_a_decorated_coroutine_does_too(
    given: httpx2.AsyncClient, paths: list[str]
) -> None:
    client = AsyncClient(NOWHERE, http_client=given, max_retries=0)

    @client.trajectory(reward_of=lambda found: found)
    async def attempt() -> float:
        return 1.0

    await asyncio.gather(attempt(), attempt())
    assert len(paths) == 2


async def test_a_background_without_a_way_of_its_own_is_none_and_says_so(
    given: httpx2.AsyncClient, paths: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with AsyncClient(NOWHERE, http_client=given, background=True, max_retries=0) as client:
        assert "background_is_off" in caplog.text
        assert (await client.reward("a", 1)).status == "recorded"
    assert len(paths) == 1


async def test_a_background_goes_by_the_http_client_for_threads(
    given: httpx2.AsyncClient, paths: list[str]
) -> None:
    threads = httpx2.Client(transport=httpx2.MockTransport(seen_by(paths)))
    client = AsyncClient(NOWHERE, http_client=given, thread_http_client=threads, background=True)
    assert (await client.reward("a", 1)).status == "queued"
    assert await client.flush(20)
    assert (client.counts.num_sent, len(paths)) == (1, 1)
    await client.close()


async def test_what_would_take_another_way_is_not_sent_and_says_the_remedy(
    given: httpx2.AsyncClient, paths: list[str]
) -> None:
    client = AsyncClient(NOWHERE, http_client=given)
    with client.trajectory("a") as t:
        t.reward(1)
    assert [result.status for result in t.results] == ["invalid"]
    assert "thread_http_client" in (t.results[0].error or "")
    assert (await client.reward(t, 1)).ok
    assert len(paths) == 1


async def test_a_post_that_is_awaited_outlives_a_second_cancellation(paths: list[str]) -> None:
    is_asked, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(request: httpx2.Request) -> httpx2.Response:
        is_asked.set()
        await goes_on.wait()
        return seen_by(paths)(request)

    client = AsyncClient(NOWHERE, http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(slow)))
    t = client.trajectory("a")

    async def attempt() -> None:
        async with t:
            t.reward(1)

    task = asyncio.ensure_future(attempt())
    await is_asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    goes_on.set()
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    assert ([result.status for result in t.results], len(paths)) == (["recorded"], 1)


def test_threads_that_begin_at_once_share_one_pool(monkeypatch: pytest.MonkeyPatch, paths: list[str]) -> None:
    num_threads = 4
    together, pools = threading.Barrier(num_threads, timeout=20), list[httpx2.Client]()

    def made() -> httpx2.Client:
        together.wait()  # all have found no pool
        pools.append(httpx2.Client(transport=httpx2.MockTransport(seen_by(paths))))
        return pools[-1]

    library = type("Library", (), {"Client": staticmethod(made), "TransportError": httpx2.TransportError})
    monkeypatch.setattr(transport, "library", lambda: library)
    client = Client(NOWHERE)
    with ThreadPoolExecutor(num_threads) as threads:
        assert all(threads.map(lambda n: client.reward(f"x{n}", 1).ok, range(num_threads)))
    assert [pool.is_closed for pool in pools].count(False) == 1
    client.close()
    assert all(pool.is_closed for pool in pools)
