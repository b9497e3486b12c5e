"""Calls that fail in the same moment ask once whether their replica is well, and never rely on an older answer."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from proxy.metrics import Metrics
from proxy.upstream.replicas import Replicas
from proxy.upstream.vllm import VllmClient
from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy


def test_a_storm_of_500s_asks_vllm_a_few_times_whether_it_is_well(
    start_proxy: StartProxy, vllm: FakeVllm
) -> None:
    proxy = start_proxy(watch_seconds=60)
    vllm.faults.status, vllm.faults.raw_body = 500, b'{"error":{"message":"no"}}'
    vllm.faults.health_seconds = 0.5
    vllm.seen.clear()
    with ThreadPoolExecutor(32) as threads:
        answers = [threads.submit(proxy.chat) for _ in range(32)]
    assert {answer.result().status_code for answer in answers} == {500}
    assert len(vllm.chats()) == 32
    assert 1 <= len(vllm.calls("/health")) <= 8  # one by one they would be 32


class Asked:
    """Stands where vLLM is asked; answers when it is told to."""

    def __init__(self) -> None:
        self.questions: list[asyncio.Future[set[str]]] = []

    async def models(self, _: str) -> set[str]:
        self.questions.append(asyncio.get_running_loop().create_future())
        return await self.questions[-1]


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def failing(asked: Asked) -> Any:
    """What a call does whose replica answered 500."""
    replicas = Replicas(["http://r"], cast("VllmClient", asked), Path("adapters"), Metrics())
    return lambda: asyncio.create_task(replicas.check_anew(replicas.all[0]))


async def _during() -> None:
    asked = Asked()
    fail = failing(asked)
    first = fail()
    await settle()
    later = [fail() for _ in range(5)]
    await settle()
    assert len(asked.questions) == 1
    asked.questions[0].set_result({"base"})
    await first
    await settle()
    assert not any(call.done() for call in later)  # that answer is from before they failed
    assert len(asked.questions) == 2
    asked.questions[1].set_result({"base"})
    await asyncio.gather(*later)
    assert len(asked.questions) == 2


def test_calls_that_fail_while_a_check_runs_share_the_next() -> None:
    asyncio.run(_during())


async def _given_up() -> None:
    asked = Asked()
    fail = failing(asked)
    first, second = fail(), fail()
    await settle()
    first.cancel()
    await settle()
    assert len(asked.questions) == 2
    asked.questions[1].set_result({"base"})
    await second


def test_a_check_whose_call_is_gone_is_made_by_the_next() -> None:
    asyncio.run(_given_up())


async def _given_up_twice() -> None:
    asked = Asked()
    fail = failing(asked)
    first, second = fail(), fail()
    await settle()
    first.cancel()
    third = fail()  # before the second one asks
    await settle()
    second.cancel()
    await settle()
    assert len(asked.questions) == 3
    asked.questions[2].set_result({"base"})
    await third


def test_nor_is_one_counted_as_made_that_two_calls_gave_up() -> None:
    asyncio.run(_given_up_twice())
