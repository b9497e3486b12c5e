"""The client for asyncio: as Client, method by method."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

from slipstream.client import judgement
from slipstream.client.address import Address
from slipstream.client.answer import result_of, results_of
from slipstream.client.background import Counts, patience_with
from slipstream.client.judgement import Judgement
from slipstream.client.request import Request, batches, list_of, tried
from slipstream.client.result import Result, failed_by, logger, told
from slipstream.client.synchronous import Client
from slipstream.client.transport import AsyncTransport

if TYPE_CHECKING:
    import httpx2

    from slipstream.client.trajectory import Trajectory, TrajectoryOptions


_NO_THREADS = (
    "A client with an http_client of its own sends nothing from a thread, which would take another way: use `async with`, "
    "await client.reward(…), or give it a thread_http_client, too."
)


class AsyncClient:
    """As Client, awaited. With `background=True` nothing waits but flush() and close().

    What is sent from a thread (the background; a trajectory's reward outside `async with`) goes by `thread_http_client`.
    With an `http_client` alone there is no such way: then a background is none, and posts are awaited.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = 5.0,
        max_retries: int | None = None,
        raises: bool = False,
        background: bool = False,
        max_queued: int = 10_000,
        flush_seconds: float = 5.0,
        http_client: "httpx2.AsyncClient | None" = None,
        thread_http_client: "httpx2.Client | None" = None,
    ) -> None:
        self.address = Address.of(base_url, api_key)
        patience = patience_with(max_retries, is_background=False)
        self._transport = AsyncTransport(self.address, timeout, patience, http_client)
        has_threads = http_client is None or thread_http_client is not None
        self._is_background, self._raises = background and has_threads, raises
        if background and not has_threads:
            logger.warning("background_is_off %s", _NO_THREADS)
        self._blocking = Client(
            self.address.url, self.address.key, timeout=timeout, max_retries=max_retries, raises=raises,
            background=self._is_background, max_queued=max_queued, flush_seconds=flush_seconds,
            http_client=thread_http_client, refusal=None if has_threads else _NO_THREADS,
        )  # fmt: skip
        self._blocking.address = self.address

    async def reward(self, target: Any, value: Any, **fields: Unpack[Judgement]) -> Result:
        return await self._done(lambda: judgement.reward(target, value, fields))

    async def rewards(self, items: Iterable[Any]) -> list[Result]:
        results: list[Result | Request] = []
        try:
            results.extend(tried(partial(judgement.item, given)) for given in items)
        except Exception as error:  # noqa: BLE001 - what the caller iterates over may raise anything
            results.append(failed_by(error))
        return await self._all_done(results)

    async def comment(self, target: Any, text: str, **fields: Unpack[Judgement]) -> Result:
        return await self._done(lambda: judgement.comment(target, text, fields))

    async def demonstrate(self, target: Any, answer: Any, **fields: Unpack[Judgement]) -> Result:
        return await self._done(lambda: judgement.demonstration(target, answer, fields))

    async def compare(self, preferred: Any, other: Any, **fields: Unpack[Judgement]) -> Result:
        return await self._done(lambda: judgement.comparison(preferred, other, fields))

    async def retract(self, target: Any, **fields: Unpack[Judgement]) -> Result:
        return await self._done(lambda: judgement.retraction(target, fields))

    async def explain(self, target: Any) -> Result:
        return await self._done(lambda: judgement.explanation(target), waits=True)

    def trajectory(
        self,
        id: str | None = None,
        **options: "Unpack[TrajectoryOptions]",
    ) -> "Trajectory":
        """Its rewards are awaited where an `async with` block ends. After the block, await reward() of this client."""
        from slipstream.client.trajectory import Trajectory

        return Trajectory(self._blocking, id, send=self.send, **options)

    def raising(self) -> Self:
        twin = copy(self)
        twin._raises = True  # noqa: SLF001 - of its own class
        twin._blocking = self._blocking.raising()  # noqa: SLF001 - of its own class
        return twin

    @property
    def counts(self) -> Counts:
        return self._blocking.counts

    async def send(self, requests: Sequence[Request], *, raises: bool | None = None) -> list[Result]:
        """As Client.send."""
        results = await self._sent(requests, waits=False)
        told(results, raises=self._raises if raises is None else raises)
        return results

    async def flush(self, seconds: float | None = None) -> bool:
        return await asyncio.to_thread(self._blocking.flush, seconds)

    async def close(self) -> None:
        await asyncio.to_thread(self._blocking.close)
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _done(self, build: Callable[[], Request], *, waits: bool = False) -> Result:
        [result] = await self._all_done([tried(build)], waits=waits)
        return result

    async def _all_done(self, given: list[Result | Request], *, waits: bool = False) -> list[Result]:
        results = iter(await self._sent([one for one in given if isinstance(one, Request)], waits=waits))
        done = [next(results) if isinstance(one, Request) else one for one in given]
        told(done, raises=self._raises)
        return done

    async def _sent(self, requests: Sequence[Request], *, waits: bool) -> list[Result]:
        if self._is_background and not waits:
            return self._blocking.send(requests, raises=False)  # into the queue
        if len(requests) == 1:
            return await self._sent_batch(requests)
        return [result for batch in batches(requests) for result in await self._sent_batch(batch)]

    async def _sent_batch(self, batch: Sequence[Request]) -> list[Result]:
        try:
            if len(batch) == 1:
                return [result_of(batch[0], await self._transport.send(batch[0]))]
            return results_of(batch, await self._transport.send(list_of(batch)))
        except Exception as error:  # noqa: BLE001 - as Client
            return [failed_by(error)] * len(batch)
