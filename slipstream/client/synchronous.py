"""The client for programs without asyncio."""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

from slipstream.client import judgement
from slipstream.client.address import Address
from slipstream.client.answer import result_of, results_of
from slipstream.client.background import Background, Counts, patience_with
from slipstream.client.judgement import Judgement
from slipstream.client.request import Request, batches, list_of, tried
from slipstream.client.result import Result, failed_by, told
from slipstream.client.transport import Transport

if TYPE_CHECKING:
    import httpx2

    from slipstream.client.trajectory import Trajectory, TrajectoryOptions


class Client:
    """Judges what was answered. Every method returns a Result; none raises, unless the client is a raising one.

    A target is a trajectory's id, a reply or its id, or your own trajectory id. `background=True` sends from a thread:
    methods return `queued` at once, and flush() or the program's end waits up to `flush_seconds`. `max_retries` is 2, and 20
    in the background, unless you say otherwise.
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
        http_client: "httpx2.Client | None" = None,
        refusal: str | None = None,
    ) -> None:
        self.address = Address.of(base_url, api_key)
        patience = patience_with(max_retries, is_background=background)
        self._transport = Transport(self.address, timeout, patience, http_client, refusal)
        self._background = Background(self._transport, max_queued, flush_seconds) if background else None
        self._raises = raises

    def reward(self, target: Any, value: Any, **fields: Unpack[Judgement]) -> Result:
        """`value`: a number within the policy's range, or true or false."""
        return self._done(lambda: judgement.reward(target, value, fields))

    def rewards(self, items: Iterable[Any]) -> list[Result]:
        """Each item (target, value), or a mapping with `target`, `reward` and the fields of a judgement; in lists of 500."""
        results: list[Result | Request] = []
        try:
            results.extend(tried(partial(judgement.item, given)) for given in items)
        except Exception as error:  # noqa: BLE001 - what the caller iterates over may raise anything
            results.append(failed_by(error))
        return self._all_done(results)

    def comment(self, target: Any, text: str, **fields: Unpack[Judgement]) -> Result:
        return self._done(lambda: judgement.comment(target, text, fields))

    def demonstrate(self, target: Any, answer: Any, **fields: Unpack[Judgement]) -> Result:
        """`answer`: what the reply should have been."""
        return self._done(lambda: judgement.demonstration(target, answer, fields))

    def compare(self, preferred: Any, other: Any, **fields: Unpack[Judgement]) -> Result:
        return self._done(lambda: judgement.comparison(preferred, other, fields))

    def retract(self, target: Any, **fields: Unpack[Judgement]) -> Result:
        """Takes back what this source said about this metric; the history is kept."""
        return self._done(lambda: judgement.retraction(target, fields))

    def explain(self, target: Any) -> Result:
        """Why it was trained, or was not: in `data`. Needs a key with the scope `admin`."""
        return self._done(lambda: judgement.explanation(target), waits=True)

    def trajectory(
        self,
        id: str | None = None,
        **options: "Unpack[TrajectoryOptions]",
    ) -> "Trajectory":
        """As slipstream.trajectory, with this client's address and key."""
        from slipstream.client.trajectory import Trajectory

        return Trajectory(self, id, **options)

    def raising(self) -> Self:
        """The same client, but its methods raise CallFailedError where something failed."""
        twin = copy(self)
        twin._raises = True  # noqa: SLF001 - of its own class
        return twin

    @property
    def counts(self) -> Counts:
        """Of the background's queue; zeros without one."""
        return self._background.counts if self._background else Counts()

    @property
    def is_raising(self) -> bool:
        return self._raises

    def send(self, requests: Sequence[Request], *, raises: bool | None = None) -> list[Result]:
        """Requests as slipstream.client.judgement makes them."""
        results = self._sent(requests, waits=False)
        told(results, raises=self._raises if raises is None else raises)
        return results

    def flush(self, seconds: float | None = None) -> bool:
        """Waits until the queue is sent; False if it is not after `seconds`."""
        return self._background.flush(seconds) if self._background else True

    def close(self) -> None:
        if self._background:
            self._background.close()
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _done(self, build: Callable[[], Request], *, waits: bool = False) -> Result:
        [result] = self._all_done([tried(build)], waits=waits)
        return result

    def _all_done(self, given: list[Result | Request], *, waits: bool = False) -> list[Result]:
        """Requests are sent, and stand in for their results."""
        results = iter(self._sent([one for one in given if isinstance(one, Request)], waits=waits))
        done = [next(results) if isinstance(one, Request) else one for one in given]
        told(done, raises=self._raises)
        return done

    def _sent(self, requests: Sequence[Request], *, waits: bool) -> list[Result]:
        if self._background and not waits:
            return [self._background.put(request) for request in requests]
        if len(requests) == 1:
            return self._sent_batch(requests)
        return [result for batch in batches(requests) for result in self._sent_batch(batch)]

    def _sent_batch(self, batch: Sequence[Request]) -> list[Result]:
        try:
            if len(batch) == 1:
                return [result_of(batch[0], self._transport.send(batch[0]))]
            return results_of(batch, self._transport.send(list_of(batch)))
        except Exception as error:  # noqa: BLE001 - an address that is none, httpx2 that is not there, a fault of ours
            return [failed_by(error)] * len(batch)
