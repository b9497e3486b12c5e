"""What proxies tell each other through a real Valkey, and what is left when it is silent, odd or away."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import pytest
import valkey
from hypothesis import given
from hypothesis import strategies as st

from ledger.vocabulary import IdentifiedBy
from proxy.conversation.address import Address
from proxy.conversation.memory import MAX_EQUAL, Memory
from proxy.conversation.recent_calls import RecentCalls, SentCall
from proxy.conversation.replies import ReplyReader, ValkeyError, command
from proxy.conversation.shared import SharedLists
from proxy.conversation.valkey import Valkey, valkey_at

ID, OTHER_ID = uuid4(), uuid4()
PREFIX = b"slipstream:turn:"


def a_digest() -> bytes:
    return uuid4().bytes * 2


@asynccontextmanager
async def connected(
    url: str, limit_seconds: float = 0.5
) -> AsyncIterator[tuple[SharedLists, Valkey, list[None]]]:
    failures: list[None] = []
    store = valkey_at(url, limit_seconds, lambda: failures.append(None))
    assert store is not None
    running = asyncio.create_task(store.run())
    await until(lambda: store.ask((b"PING",)) is not None)
    yield SharedLists(PREFIX, store, Memory(100), 60), store, failures
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def until(look: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_what_one_proxy_tells_another_takes_once(valkey_url: str) -> None:
    digest = a_digest()
    async with connected(valkey_url) as (a, _, _), connected(valkey_url) as (b, _, _):
        telling = a.push(digest, [ID])
        assert telling is not None
        await telling
        assert await b.newest(digest) == ID
        assert [await b.pop(digest), await b.pop(digest), await a.pop(digest)] == [ID, None, None]


async def test_of_equal_turns_the_newest_goes_on_first(valkey_url: str) -> None:
    digest = a_digest()
    async with connected(valkey_url) as (lists, _, _):
        lists.push(digest, [ID])
        lists.push(digest, [OTHER_ID])
        assert [await lists.pop(digest), await lists.pop(digest)] == [OTHER_ID, ID]


async def test_told_again_it_stands_there_once(valkey_url: str) -> None:
    digest = a_digest()
    async with connected(valkey_url) as (lists, _, _):
        for _ in range(3):
            lists.push(digest, [ID], is_again=True)
        assert [await lists.pop(digest), await lists.pop(digest)] == [ID, None]
        lists.push(digest, [ID, OTHER_ID])
        lists.remove(digest, ID)
        assert [await lists.pop(digest), await lists.pop(digest)] == [OTHER_ID, None]


async def test_valkey_holds_digests_and_ids_only_and_forgets_them(valkey_url: str) -> None:
    digest = a_digest()
    async with connected(valkey_url) as (lists, _, _):
        for _ in range(MAX_EQUAL + 5):
            telling = lists.push(digest, [ID])
        assert telling is not None
        await telling
    with valkey.Valkey.from_url(valkey_url) as client:
        assert client.lrange(PREFIX + digest, 0, -1) == [ID.bytes] * MAX_EQUAL
        assert 0 < client.ttl(PREFIX + digest) <= 60


async def test_without_a_connection_memory_answers_at_once_and_valkey_again_when_it_is_back(
    valkey_url: str,
) -> None:
    digest = a_digest()
    async with connected(valkey_url) as (lists, store, failures):
        with valkey.Valkey.from_url(valkey_url) as client:
            client.client_kill_filter(_type="normal", skipme=True)
        await until(lambda: store.ask((b"PING",)) is None)
        began = time.monotonic()
        assert lists.push(digest, [ID]) is None  # this process' memory has it
        assert await lists.pop(a_digest()) is None
        assert time.monotonic() - began < 0.05
        await until(lambda: store.ask((b"PING",)) is not None)
        assert len(failures) == 1
        assert [await lists.pop(digest), await lists.pop(digest)] == [ID, None]


@asynccontextmanager
async def peer(answer: bytes | None) -> AsyncIterator[str]:
    """Something that accepts connections, and says this to whatever it is asked; None: nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            if answer is not None:
                writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"


async def test_a_silent_valkey_costs_its_limit_once_then_nothing() -> None:
    async with peer(None) as url:
        store = valkey_at(url, 0.05, lambda: None)
        assert store is not None
        running = asyncio.create_task(store.run())
        lists = SharedLists(PREFIX, store, Memory(100), 60)
        await until(lambda: store._link is not None)
        digest, began = a_digest(), time.monotonic()
        telling = lists.push(digest, [ID])
        assert telling is not None
        found = await asyncio.gather(*(lists.pop(a_digest()) for _ in range(20)))
        assert found == [None] * 20
        assert 0.04 < time.monotonic() - began < 0.5
        began = time.monotonic()
        assert await lists.pop(digest) == ID  # what Valkey did not confirm is in memory
        assert await lists.pop(digest) is None
        assert time.monotonic() - began < 0.04
        running.cancel()
        await asyncio.wait({running})


@pytest.mark.parametrize(
    "answer", [b"-OOM command not allowed\r\n", b"HTTP/1.1 400\r\n\r\n", b"*1\r\n:1\r\n", b":x\r\n"]
)
async def test_an_odd_answer_ends_the_connection_and_nothing_is_lost(answer: bytes) -> None:
    async with peer(answer) as url:
        store = valkey_at(url, 0.5, lambda: None)
        assert store is not None
        running = asyncio.create_task(store.run())
        lists = SharedLists(PREFIX, store, Memory(100), 60)
        await until(lambda: store._link is not None)
        digest = a_digest()
        telling = lists.push(digest, [ID])
        assert telling is not None
        assert await telling is None
        await asyncio.sleep(0)
        assert await lists.pop(digest) == ID
        running.cancel()
        await asyncio.wait({running})


async def test_who_gave_up_waiting_leaves_the_others_answers_in_order(valkey_url: str) -> None:
    async with connected(valkey_url) as (_, store, failures):
        asked = [store.ask((b"ECHO", str(k).encode())) for k in range(20)]
        for answer in asked[::3]:
            assert answer is not None
            answer.cancel()
        for k, answer in enumerate(asked):
            if answer is not None and k % 3:
                assert await answer == [str(k).encode()]
        assert not failures


@given(
    st.lists(st.sampled_from([(b"$-1\r\n", None), (b":12\r\n", 12), (b"+OK\r\n", b"OK"), (b"$0\r\n\r\n", b""),
                              (b"$6\r\n\r\na\r\nb\r\n", b"\r\na\r\nb")]), max_size=8),
    st.lists(st.integers(0, 60), max_size=8),
)  # fmt: skip
def test_replies_are_the_same_wherever_they_were_cut(
    replies: list[tuple[bytes, object]], places: list[int]
) -> None:
    raw = b"".join(text for text, _ in replies)
    reader, seen, begun = ReplyReader(), [], 0
    for place in [*sorted(places), len(raw)]:
        seen += list(reader.feed(raw[begun:place]))
        begun = max(begun, place)
    assert seen == [value for _, value in replies]


def test_commands_are_written_by_length() -> None:
    assert command((b"RPOP", b"a\r\nb")) == b"*2\r\n$4\r\nRPOP\r\n$4\r\na\r\nb\r\n"
    with pytest.raises(ValkeyError, match="NOAUTH"):
        list(ReplyReader().feed(b"-NOAUTH Authentication required.\r\n"))


def test_an_address_says_who_we_are_and_never_shows_it() -> None:
    address = Address.parse("redis://me:p%40ss@cache:6380/2")
    assert (address.host, address.port, address.path, address.tls) == ("cache", 6380, None, None)
    assert address.greetings == ((b"AUTH", b"me", b"p@ss"), (b"SELECT", b"2"))
    assert "p@ss" not in repr(address)
    assert Address.parse("redis://:s@h").greetings == ((b"AUTH", b"s"),)
    assert Address.parse("unix:///run/valkey.sock?db=1").path == "/run/valkey.sock"
    assert Address.parse("rediss://h/0").tls is not None
    assert valkey_at("sentinel://h:26379", 0.05, lambda: None) is None
    assert valkey_at(None, 0.05, lambda: None) is None


def test_memory_is_bounded() -> None:
    memory = Memory(2)
    first, second, third = a_digest(), a_digest(), a_digest()
    memory.push(first, [ID])
    memory.push(second, [ID])
    memory.push(first, [OTHER_ID])
    memory.push(third, [ID])
    assert memory.pop(second) is None
    assert [memory.pop(first), memory.pop(first), memory.pop(first)] == [OTHER_ID, ID, None]
    memory.push(third, [ID] * 2 * MAX_EQUAL)
    assert sum(memory.pop(third) is not None for _ in range(2 * MAX_EQUAL)) == MAX_EQUAL


def sent(num_retries: int = 0, *, is_answered: bool = False) -> SentCall:
    return SentCall(UUID(int=uuid4().int), IdentifiedBy.NEW, num_retries, is_answered=is_answered)


def test_a_retry_repeats_the_attempt_whose_answer_did_not_arrive_and_each_once() -> None:
    recent, sender = RecentCalls(10), a_digest()
    lost, read = sent(), sent(is_answered=True)
    recent.add(sender, lost)
    recent.add(sender, read)
    assert recent.repeated(sender, 1) is lost
    again = sent(1)
    recent.add(sender, again)
    assert recent.repeated(sender, 2) is again
    assert recent.repeated(sender, 1) is read
    assert recent.repeated(sender, 1) is None
    assert recent.repeated(a_digest(), 1) is None


def test_an_old_call_is_no_longer_repeated() -> None:
    recent, sender, old = RecentCalls(10), a_digest(), sent()
    old.sent_at -= 901
    recent.add(sender, old)
    assert recent.repeated(sender, 1) is None
