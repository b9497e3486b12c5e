"""A trajectory that is open belongs to whom opened it: his clients carry it, others never see it."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI

from slipstream import Client, current_trajectory, trajectory
from tests.client.conftest import Events
from tests.client.frameworks import BoringFramework, SessionFramework
from tests.fakes.middleman import Middleman
from tests.proxy.running import RunningProxy, eventually

MESSAGES: Any = [{"role": "user", "content": "Hi"}]


def ask(client: OpenAI, **options: Any) -> Any:
    return client.with_options(max_retries=0).chat.completions.create(
        model="gpt-4o", messages=MESSAGES, **options
    )


def told(middleman: Middleman) -> list[str | None]:
    """The trajectory that each call named in its header, in order."""
    return [seen.headers.get("x-trajectory-id") for seen in middleman.seen if "chat" in seen.path]


def test_a_client_made_inside_belongs_to_the_trajectory_and_is_rewarded(
    middleman: Middleman, proxy: RunningProxy, name: str
) -> None:
    with trajectory(name, group=f"g-{name}", group_size=2, route="greeting") as t, OpenAI() as client:
        ask(client)
        ask(client)
        t.reward(0.75)
    eventually(
        lambda: len(proxy.rows("SELECT 1 FROM trajectories WHERE external_id = :name", name=name)) == 1
    )
    eventually(
        lambda: (
            proxy.rows(
                "SELECT value FROM reward_events JOIN trajectories t ON t.id = trajectory_id WHERE external_id = :name",
                name=name,
            )
            == [(0.75,)]
        )
    )
    calls = [seen.headers for seen in middleman.seen if "chat" in seen.path]
    assert [call["x-trajectory-id"] for call in calls] == [name, name]
    assert (calls[0]["x-group-id"], calls[0]["x-group-size"], calls[0]["x-route"]) == (
        f"g-{name}",
        "2",
        "greeting",
    )
    assert t.results[0].ok


async def test_asynchronous_clients_and_blocks_do_the_same(
    middleman: Middleman, events: Events, name: str
) -> None:
    async with trajectory(name) as t, AsyncOpenAI() as client:
        await client.chat.completions.create(model="gpt-4o", messages=MESSAGES)
        t.reward(0.25)
    assert told(middleman) == [name]
    assert t.results[0].ok


def test_a_client_made_outside_keeps_its_own_and_so_do_its_copies(middleman: Middleman) -> None:
    with OpenAI(base_url=f"{middleman.url}/v1", api_key="any") as outside:
        with trajectory():
            ask(outside)
            ask(outside.with_options(timeout=9))
            ask(outside.copy(default_headers={"X-Mine": "1"}))
        assert told(middleman) == [None] * 3


def test_a_client_made_inside_keeps_its_trajectory_after_it_and_in_copies(
    middleman: Middleman, name: str
) -> None:
    with trajectory(name), trajectory() as inner:
        client = OpenAI()
    ask(client)
    ask(client.with_options(timeout=9))
    with trajectory():
        ask(client.copy())
    assert told(middleman) == [inner.id] * 3
    client.close()


def test_a_client_that_names_its_own_trajectory_or_another_server_is_left_alone(middleman: Middleman) -> None:
    with trajectory():
        with OpenAI(base_url="https://elsewhere.example/v1", api_key="k") as elsewhere:
            assert "X-Trajectory-Id" not in elsewhere.default_headers
            assert str(elsewhere.base_url) == "https://elsewhere.example/v1/"
        with OpenAI(
            default_headers={"x-trajectory-id": "mine"}, base_url=f"{middleman.url}/v1", api_key="k"
        ) as own:
            assert own.default_headers["x-trajectory-id"] == "mine"
            assert "X-Trajectory-Id" not in own.default_headers


def test_a_base_url_that_is_the_proxy_s_gets_the_headers(middleman: Middleman, name: str) -> None:
    with trajectory(name), OpenAI(base_url=f"{middleman.url}/v1", api_key="k") as client:
        ask(client)
    assert told(middleman) == [name]


def test_without_an_address_clients_go_where_they_would_have_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    with trajectory(), OpenAI(api_key="k") as client:
        assert str(client.base_url) == "https://api.openai.com/v1/"
        assert "X-Trajectory-Id" not in client.default_headers


def test_nested_trajectories_are_left_in_order(middleman: Middleman) -> None:
    with trajectory() as outer:
        with trajectory() as inner:
            assert current_trajectory() is inner
            ask(OpenAI())
        assert current_trajectory() is outer
        ask(OpenAI())
    assert current_trajectory() is None
    assert told(middleman) == [inner.id, outer.id]


def test_threads_never_mix(middleman: Middleman) -> None:
    together = threading.Barrier(8)

    def attempt(name: str) -> None:
        with trajectory(name), OpenAI() as client:
            together.wait(20)
            ask(client, user=name)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(attempt, [f"t{n}" for n in range(8)]))
    assert sorted(filter(None, told(middleman))) == [f"t{n}" for n in range(8)]
    for seen in middleman.seen:
        assert f'"user":"{seen.headers["x-trajectory-id"]}"'.encode() in seen.body


async def test_tasks_never_mix(middleman: Middleman) -> None:
    async def attempt(name: str) -> None:
        async with trajectory(name):
            await asyncio.sleep(0)
            async with AsyncOpenAI() as client:
                await client.chat.completions.create(model="gpt-4o", messages=MESSAGES, user=name)

    await asyncio.gather(*(attempt(f"t{n}") for n in range(8)))
    assert sorted(filter(None, told(middleman))) == [f"t{n}" for n in range(8)]
    for seen in middleman.seen:
        assert f'"user":"{seen.headers["x-trajectory-id"]}"'.encode() in seen.body


def test_a_new_thread_sees_no_trajectory_unless_it_runs_in_a_copy_of_the_context() -> None:
    with trajectory() as t, ThreadPoolExecutor(1) as pool:
        assert pool.submit(current_trajectory).result() is None
        assert pool.submit(copy_context().run, current_trajectory).result() is t


def test_the_sdk_is_as_it_was_when_no_trajectory_is_open() -> None:
    names = ("__init__", "copy", "with_options")
    before = [vars(owner)[name] for owner in (OpenAI, AsyncOpenAI) for name in names]
    with trajectory():
        with trajectory():
            assert vars(OpenAI)["__init__"] is not before[0]
        assert vars(OpenAI)["__init__"] is not before[0]
    assert [vars(owner)[name] for owner in (OpenAI, AsyncOpenAI) for name in names] == before


def test_another_s_patch_over_ours_is_left_and_ours_does_nothing(
    middleman: Middleman, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = vars(OpenAI)["__init__"]
    num_made = 0
    with trajectory():
        ours = vars(OpenAI)["__init__"]

        def instrumented(self: OpenAI, **options: Any) -> None:
            nonlocal num_made
            num_made += 1
            ours(self, **options)

        OpenAI.__init__ = instrumented  # type: ignore[method-assign,assignment]
    assert vars(OpenAI)["__init__"] is instrumented
    assert "X-Trajectory-Id" not in OpenAI(api_key="k").default_headers
    with trajectory("again"):
        assert OpenAI().default_headers["X-Trajectory-Id"] == "again"
    assert num_made == 2
    OpenAI.__init__ = ours  # type: ignore[method-assign]
    with trajectory():
        pass
    assert vars(OpenAI)["__init__"] is original


def test_an_exception_loses_no_reward_and_goes_on(middleman: Middleman, events: Events, name: str) -> None:
    with contextlib.suppress(KeyError), trajectory(name, on_exception_reward=-1) as t:
        t.reward(0.5)
        raise KeyError
    assert [event.value for event in events(name)] == [0.5]


async def test_a_cancelled_task_loses_no_reward(middleman: Middleman, events: Events, name: str) -> None:
    has_set = asyncio.Event()

    async def body() -> None:
        async with trajectory(name) as t:
            t.reward(0.5)
            has_set.set()
            await asyncio.sleep(60)

    task = asyncio.ensure_future(body())
    await has_set.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [event.value for event in events(name)] == [0.5]


def test_an_exception_can_be_a_reward_where_none_was_set(
    middleman: Middleman, events: Events, name: str
) -> None:
    with pytest.raises(KeyError), trajectory(name, on_exception_reward=-1):
        raise KeyError
    assert [event.value for event in events(name)] == [-1.0]
    with pytest.raises(KeyboardInterrupt), trajectory(f"{name}-2", on_exception_reward=-1):
        raise KeyboardInterrupt
    with trajectory(f"{name}-3", on_exception_reward=-1):
        pass
    assert events(f"{name}-2") + events(f"{name}-3") == []


def test_a_reward_after_the_block_is_posted_at_once(client: Client, events: Events, name: str) -> None:
    with client.trajectory(name) as t:
        assert t.reward(0.5).status == "queued"
        assert events(name) == []
    assert t.reward(1.0).status == "early"
    assert client.reward(t, 0.25, final=False).http_status
    assert [event.value for event in events(name)][:2] == [0.5, 1.0]


def test_a_decorated_function_is_a_trajectory_each_time(
    middleman: Middleman, proxy: RunningProxy, name: str
) -> None:
    @trajectory(group=name, reward_of=lambda answer: len(answer) / 100)
    def agent(question: str) -> str:
        """Answers."""
        reply = ask(OpenAI())
        return f"{question} {reply.choices[0].message.content}"

    assert agent.__doc__ == "Answers."
    assert agent("one").startswith("one ")
    agent("two")
    first, second = told(middleman)
    assert first != second
    groups = [seen.headers["x-group-id"] for seen in middleman.seen if "chat" in seen.path]
    assert groups == [name, name]
    rewarded = [seen.path.split("/")[3] for seen in middleman.seen if "reward" in seen.path]
    assert rewarded == [first, second]


async def test_a_decorated_coroutine_is_a_trajectory(middleman: Middleman) -> None:
    @trajectory
    async def agent() -> str:
        now = current_trajectory()
        assert now is not None
        return now.id

    first, second = await asyncio.gather(agent(), agent())
    assert first != second


def test_a_decorated_generator_is_current_only_while_it_runs(middleman: Middleman, name: str) -> None:
    @trajectory(name, reward_of=lambda returned: returned)
    def stream() -> Iterator[str | None]:
        for _ in range(2):
            now = current_trajectory()
            yield now and now.id
        return 0.5

    seen = [(item, current_trajectory()) for item in stream()]
    assert seen == [(name, None)] * 2
    assert [s.path for s in middleman.seen] == [f"/v1/trajectories/{name}/reward"]


async def test_a_decorated_asynchronous_generator_is_too_and_may_be_left(
    middleman: Middleman, name: str
) -> None:
    ended = []

    @trajectory(name, on_exception_reward=-1)
    async def stream() -> AsyncIterator[str | None]:
        try:
            for _ in range(3):
                now = current_trajectory()
                yield now and now.id
        finally:
            ended.append(current_trajectory())

    generator = stream()
    async for item in generator:
        assert (item, current_trajectory()) == (name, None)
        break
    await generator.aclose()  # type: ignore[attr-defined]
    assert ended[0].id == name
    assert middleman.seen == []


def test_wrap_and_openai_make_clients_for_a_trajectory_that_is_not_open(
    middleman: Middleman, name: str
) -> None:
    t = trajectory(name)
    existing = OpenAI(base_url="https://elsewhere.example/v1", api_key="k", default_headers={"X-Mine": "1"})
    ask(t.wrap(existing))
    ask(t.openai(default_headers={"X-Mine": "2"}))
    assert told(middleman) == [name, name]
    assert [seen.headers["x-mine"] for seen in middleman.seen] == ["1", "2"]
    assert str(existing.base_url) == "https://elsewhere.example/v1/"
    existing.close()


@pytest.mark.parametrize("framework", [BoringFramework, SessionFramework])
def test_a_framework_that_takes_a_base_url_and_headers_is_enough(
    framework: Callable[..., Any], middleman: Middleman, proxy: RunningProxy, name: str
) -> None:
    t = trajectory(name)
    assert framework(t).run("Hi")
    eventually(lambda: proxy.rows("SELECT 1 FROM trajectories WHERE external_id = :name", name=name))


def test_the_sdk_s_own_global_client_is_left_alone(
    middleman: Middleman, monkeypatch: pytest.MonkeyPatch
) -> None:
    import openai

    monkeypatch.setattr(openai, "base_url", f"{middleman.url}/v1/")
    monkeypatch.setattr(openai, "api_key", "any")
    with trajectory():
        openai.chat.completions.create(model="gpt-4o", messages=MESSAGES)
    openai.chat.completions.create(model="gpt-4o", messages=MESSAGES)
    assert told(middleman) == [None, None]
    assert not openai.default_headers
    openai.chat._client.close()
    openai._reset_client()  # type: ignore[attr-defined]
