"""A program that judges goes on, whatever happens: it gets a result that says so, and a line in its log."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipstream import AsyncClient, CallFailedError, Client, Result, trajectory
from slipstream.client.answer import result_of, results_of
from slipstream.client.patience import Answer
from slipstream.client.request import Request
from tests.client.conftest import NOWHERE
from tests.fakes.middleman import Middleman, OwnAnswer

Make = Callable[..., Client]
GARBAGE = [None, "", [], {}, object(), float("nan"), float("inf"), 10**400, "\ud800", b"x", {1}, lambda: 1]


def everything(client: Any, one: Any, other: Any) -> list[Any]:
    """Each method, with two odd arguments."""
    return [
        client.reward(one, other),
        client.reward("x", 1, metric=one, observed_at=other, choice=one),
        client.reward("x", 1, unknown=one),
        client.rewards([one, other, (one, other), {"target": one, "reward": other}]),
        client.rewards(one),
        client.comment(one, other),
        client.demonstrate(one, other),
        client.compare(one, other),
        client.retract(one, metric=other),
        client.explain(one),
        client.trajectory(one, group=other, group_size=one, route=other).reward(other, one),
    ]


def failed(results: list[Any]) -> bool:
    flat = [one for result in results for one in (result if isinstance(result, list) else [result])]
    assert all(isinstance(one, Result) for one in flat)
    return all(one.error or one.ok for one in flat)


@pytest.mark.parametrize("one", GARBAGE, ids=repr)
def test_no_argument_makes_a_method_raise(client_of: Make, one: Any) -> None:
    client = client_of(NOWHERE, max_retries=0)
    for other in (1.0, one):
        assert failed(everything(client, one, other))


@pytest.mark.parametrize("one", GARBAGE, ids=repr)
async def test_no_argument_makes_an_asynchronous_method_raise(one: Any) -> None:
    async with AsyncClient(NOWHERE, max_retries=0) as client:
        results = [
            await result if inspect.isawaitable(result) else result for result in everything(client, one, 1.0)
        ]
    assert failed(results)


@pytest.mark.parametrize(
    "url", [NOWHERE, "nowhere", "http://", "ftp://x", "http://[::1", "\x00", "http://a b"]
)
def test_no_address_makes_a_client_raise(client_of: Make, url: str, caplog: pytest.LogCaptureFixture) -> None:
    client = client_of(url, max_retries=0)
    result = client.reward("x", 1.0)
    assert (result.ok, result.status in {"unreachable", "invalid"}) == (False, True)
    assert "call_failed" in caplog.text
    with client.trajectory() as t:
        t.reward(1.0)
    assert [result.ok for result in t.results] == [False]


def test_a_refusal_says_the_field_and_the_remedy(
    client: Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    result = client.reward(name, 99)
    assert (result.status, result.http_status) == ("refused", 422)
    assert result.error is not None
    assert result.data["error"]["param"] == "reward"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b'{"data": 7}', b"\xff", b"[" * 100_000])
def test_an_answer_that_makes_no_sense_is_a_result(client: Client, middleman: Middleman, body: bytes) -> None:
    middleman.own_answers = [OwnAnswer(200, body), OwnAnswer(200, body)]
    assert client.reward("x", 1.0).status in {"garbled", "found"}
    assert {result.status for result in client.rewards([("x", 1), ("y", 1)])} == {"garbled"}


def test_a_server_that_hangs_is_left_after_the_time_out(client_of: Make, proxy: Any) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = client_of(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.05, max_retries=1)
        assert client.reward("x", 1).status == "unreachable"


def test_a_raising_client_raises_with_the_result(client: Client, name: str) -> None:
    raising = client.raising()
    assert raising.reward(name, 0.5).ok
    with pytest.raises(CallFailedError, match="refused") as refused:
        raising.reward(name, 99)
    assert refused.value.result.http_status == 422
    with pytest.raises(CallFailedError) as some:
        raising.rewards([(name, 1), (name, 99)])
    assert [result.ok for result in some.value.results] == [True, False]
    with pytest.raises(CallFailedError, match="invalid"):
        raising.reward(None, 1)
    assert not client.reward(None, 1)


async def test_an_asynchronous_raising_client_raises(middleman: Middleman, name: str) -> None:
    async with AsyncClient(raises=True) as client:
        with pytest.raises(CallFailedError):
            await client.reward(name, 99)


def test_an_iterable_that_raises_loses_nothing_before_it(client: Client, name: str) -> None:
    def items() -> Iterator[Any]:
        yield name, 0.5
        raise RuntimeError("the caller's own")

    results = client.rewards(items())
    assert [result.ok for result in results] == [True, False]


async def test_a_cancelled_task_is_cancelled(middleman: Middleman) -> None:
    """What ends a program or a task is not swallowed."""
    async with AsyncClient() as client:
        task = asyncio.ensure_future(client.reward("x", 1))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_a_reward_in_a_trajectory_that_fails_does_not_hide_the_body_s_own_exception(client_of: Make) -> None:
    client = client_of(NOWHERE, max_retries=0, raises=True)

    def body(error: type[Exception] | None) -> None:
        with client.trajectory() as t:
            t.reward(1.0)
            if error:
                raise error

    with pytest.raises(ZeroDivisionError):
        body(ZeroDivisionError)
    with pytest.raises(CallFailedError):
        body(None)


def test_names_that_no_header_can_carry_are_made_fit(client_of: Make) -> None:
    t = trajectory("run 7\n", group="ü" * 300, route=" a ", client=client_of(NOWHERE))
    assert t.id == "run 7%0A"
    assert len(t.headers["X-Group-Id"]) == 64
    assert t.headers["X-Route"] == "a"
    assert trajectory(group="ü" * 300).headers["X-Group-Id"] == t.headers["X-Group-Id"]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(100, 599), st.binary(max_size=40) | st.sampled_from([b"{}", b"[]", b'{"data":[1,{},null]}'])
)
def test_whatever_the_proxy_answers_there_is_a_result_for_each(status: int, body: bytes) -> None:
    requests = [Request("POST", "/", id=str(n)) for n in range(3)]
    answer = Answer(status, {}, body)
    assert len(results_of(requests, answer)) == 3
    assert result_of(requests[0], answer).ok <= (status < 300)
