"""Group commit: who is written together, who is told what, and what one post can do to the others."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, text

from ledger.database import sync_engine
from ledger.errors import RewardOutOfRangeError
from ledger.recording import record_calls
from ledger.rewards.posts import Posting, RewardPost
from proxy.errors import LedgerUnavailableError, OverloadedError
from proxy.management import bounded
from proxy.management.reward_writer import NUM_LANES, BrokenPostError, RewardWriter
from proxy.metrics import Metrics
from tests.ledger.calls import a_call, a_policy
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually

_LOCK = text("LOCK TABLE reward_events")


@pytest.fixture
async def writer(database_url: str, engine: Engine) -> AsyncIterator[RewardWriter]:
    with engine.begin() as connection:
        a_policy(connection)
        record_calls(connection, [a_call(external_id="mine")])
    own = sync_engine(database_url, pool_size=NUM_LANES)
    writer = RewardWriter(own, Metrics(), max_waiting=250)
    running = asyncio.create_task(writer.run())
    yield writer
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await writer.close()
    own.dispose()


def a_posting(source: str, target: str = "mine", **changes: Any) -> Posting:
    return Posting("default", [RewardPost(target, **{"value": 1.0, "source": source, **changes})])


def num_commits(writer: RewardWriter) -> float:
    return writer._metrics.reward_commits._value.get()


def values(engine: Engine) -> list[float]:
    with engine.connect() as connection:
        return list(connection.scalars(text("SELECT value FROM reward_events ORDER BY id")))


async def test_what_comes_while_a_transaction_runs_is_committed_together(
    writer: RewardWriter, engine: Engine
) -> None:
    await asyncio.gather(*(writer.post(a_posting(f"s{n}")) for n in range(150)))
    assert len(values(engine)) == 150
    assert num_commits(writer) <= 3


async def test_who_comes_alone_is_not_made_to_wait_for_company(writer: RewardWriter) -> None:
    for n in range(3):
        [result] = await writer.post(a_posting(f"s{n}"))
        assert result.status == "recorded"
        assert num_commits(writer) == n + 1


async def test_a_post_that_cannot_be_written_harms_no_other(writer: RewardWriter, engine: Engine) -> None:
    """A set is no JSON: here it stands for whatever gets past every check and cannot be written."""
    asked = [
        a_posting("a"),
        a_posting("b", value=7.0),
        a_posting("c", content={1}),
        a_posting("d", value=0.5),
    ]
    answers = await asyncio.gather(*(writer.post(one) for one in asked), return_exceptions=True)
    assert [type(answer) for answer in answers] == [list, RewardOutOfRangeError, BrokenPostError, list]
    assert values(engine) == [1.0, 0.5]
    each = await writer.post_each(asked)
    assert [type(answer) for answer in each] == [list, RewardOutOfRangeError, BrokenPostError, list]


async def test_a_list_is_written_in_its_order_however_long(writer: RewardWriter, engine: Engine) -> None:
    postings = [a_posting("user", value=float(n % 2), idempotency_id=f"{n}") for n in range(450)]
    await writer.post_each(postings)
    assert values(engine) == [float(n % 2) for n in range(450)]


async def test_more_than_may_wait_are_refused_and_told_when_to_come_again(
    writer: RewardWriter, engine: Engine
) -> None:
    with engine.connect() as connection:
        connection.execute(_LOCK)
        waiting = [asyncio.create_task(writer.post(a_posting(f"s{n}"))) for n in range(250)]
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError, match="SLIPSTREAM_MAX_WAITING_REWARDS") as refused:
            await writer.post(a_posting("one more"))
        assert refused.value.retry_after == 1
    await asyncio.gather(*waiting)
    assert len(values(engine)) == 250
    assert await writer.post(a_posting("one more"))


async def test_a_transaction_that_is_held_up_holds_up_no_later_ones(
    writer: RewardWriter, engine: Engine
) -> None:
    with engine.connect() as connection:
        held = {"id": connection.scalar(text("SELECT id FROM trajectories"))}
        connection.execute(text("SELECT FROM trajectories WHERE id = :id FOR UPDATE"), held)
        slow = asyncio.create_task(writer.post(a_posting("user")))
        await asyncio.sleep(0.05)
        assert [one.status for one in await writer.post(a_posting("user", target="another"))] == ["early"]
        assert not slow.done()
    assert [one.status for one in await slow] == ["recorded"]


async def test_who_was_told_503_is_not_written_when_postgres_wakes_and_the_others_are(
    writer: RewardWriter, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I5: the rest of the batch is tried again without it."""
    monkeypatch.setattr(bounded, "WAIT_SECONDS", 0.4)
    with engine.connect() as connection:
        connection.execute(_LOCK)
        first = asyncio.create_task(writer.post(a_posting("told")))
        await asyncio.sleep(0.2)
        monkeypatch.setattr(bounded, "WAIT_SECONDS", 20)
        second = asyncio.create_task(writer.post(a_posting("waits", value=0.5)))
        with pytest.raises(LedgerUnavailableError):
            await first
    await second
    await asyncio.sleep(0.1)
    assert values(engine) == [0.5]


async def test_a_list_that_breaks_off_says_what_is_committed(
    writer: RewardWriter, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I5: the first 200 are written in a transaction of their own, and are answered whatever comes next."""
    commit, num_tries = writer._commit, 0

    async def once(*arguments: Any) -> Any:
        nonlocal num_tries
        num_tries += 1
        if num_tries > 1:
            raise LedgerUnavailableError(retry_after=2)
        return await commit(*arguments)

    monkeypatch.setattr(writer, "_commit", once)
    answers = await writer.post_each([a_posting(f"s{n}") for n in range(450)])
    assert [type(answer) for answer in answers] == [list] * 200 + [LedgerUnavailableError] * 250
    assert len(values(engine)) == 200
    with pytest.raises(LedgerUnavailableError):
        await writer.post_each([a_posting("another")])


async def test_a_broken_connection_is_a_503_and_the_next_post_has_a_new_one(
    writer: RewardWriter, engine: Engine
) -> None:
    await writer.post(a_posting("a"))
    with engine.begin() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
    with suppress(LedgerUnavailableError):
        await writer.post(a_posting("b"))
    assert [one.status for one in await writer.post(a_posting("c"))] == ["recorded"]


def test_b096_fifty_identical_posts_at_once_make_one_event(start_proxy: StartProxy) -> None:
    """I5, B096: at two proxies, each with half of them."""
    proxies = [start_proxy(), start_proxy()]
    proxies[0].chat(headers={"X-Trajectory-Id": "x"})
    proxies[0].exchanges()
    answers: list[httpx.Response] = []

    def post(proxy: RunningProxy) -> None:
        answers.append(httpx.post(f"{proxy.url}/v1/trajectories/x/reward", json={"reward": 0.5}, timeout=30))

    threads = [threading.Thread(target=post, args=(proxies[n % 2],)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.json()["status"] for answer in answers) == ["recorded"] + ["unchanged"] * 49
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert eventually(lambda: len(proxies[0].rows("SELECT 1 FROM reward_events"))) == 1
