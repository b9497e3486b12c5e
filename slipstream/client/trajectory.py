"""One attempt at one task, opened in the program: what OpenAI clients made inside say belongs to it, and it is rewarded.

The reward that was set is posted when the block ends, however it ends; an exception goes on as it was.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypedDict, TypeVar, Unpack, overload
from urllib.parse import quote
from uuid import uuid4

from slipstream.client import judgement, openai_clients, opened
from slipstream.client.address import Address
from slipstream.client.decoration import decorated
from slipstream.client.judgement import Judgement
from slipstream.client.names import header_text
from slipstream.client.request import Request, tried
from slipstream.client.result import Result, failed_by, told
from slipstream.client.synchronous import Client

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

P = ParamSpec("P")
R = TypeVar("R")
OpenAIClient = TypeVar("OpenAIClient")


class TrajectoryOptions(TypedDict, total=False):
    """Those with the same `group` attempted the same task, `group_size` of them; `route` names the kind of call.

    `reward_of` makes a reward of what a decorated function returned; `on_exception_reward` is the reward where the body
    raised and none was set.
    """

    group: str | None
    group_size: int | None
    route: str | None
    reward_of: Callable[[Any], Any] | None
    on_exception_reward: float | bool | None


class Trajectory:
    def __init__(
        self,
        client: Client,
        id: str | None = None,
        *,
        send: Callable[..., Awaitable[list[Result]]] | None = None,
        **options: Unpack[TrajectoryOptions],
    ) -> None:
        """`send` is an AsyncClient's, by which the rewards go where an `async with` block ends."""
        self.client, self._send = client, send
        self._given_id, self._options = id, options
        self.id = header_text(id) if id else uuid4().hex
        self.results: list[Result] = []  # of what was posted when blocks ended
        self._set = list[Request]()
        self._num_open = 0

    @cached_property
    def headers(self) -> dict[str, str]:
        """For any client that can send headers of its own."""
        options = self._options
        given = {
            "X-Trajectory-Id": self.id,
            "X-Group-Id": options.get("group"),
            "X-Group-Size": options.get("group_size"),
            "X-Route": options.get("route"),
        }
        return {name: header_text(value) for name, value in given.items() if value is not None}

    @property
    def address(self) -> Address:
        return self.client.address

    @property
    def base_url(self) -> str:
        """For clients that take nothing but a base URL; group and route need the headers."""
        return f"{self.address.url}/sessions/{quote(self.id, safe='')}/v1"

    def openai(self, **arguments: Any) -> "OpenAI":
        """An OpenAI client of this trajectory, wherever it is used. Takes what openai.OpenAI takes."""
        from openai import OpenAI

        return OpenAI(**self._arguments(arguments))

    def async_openai(self, **arguments: Any) -> "AsyncOpenAI":
        from openai import AsyncOpenAI

        return AsyncOpenAI(**self._arguments(arguments))

    def wrap(self, client: OpenAIClient) -> OpenAIClient:
        """A copy of an openai (or anthropic) client that speaks for this trajectory; the client itself stays as it was."""
        is_anthropic = type(client).__module__.startswith("anthropic")
        url = self.address.url if is_anthropic else self.address.v1
        copied: OpenAIClient = client.with_options(base_url=url, default_headers=self.headers)  # type: ignore[attr-defined]
        return copied

    def reward(self, value: Any, target: Any = None, **fields: Unpack[Judgement]) -> Result:
        """Sets a reward of this trajectory, or of a reply in it; posted when the block ends, after it at once."""
        request = tried(lambda: judgement.reward(self if target is None else target, value, fields))
        if isinstance(request, Result):
            told([request], raises=self.client.is_raising)
            return request
        if not self._num_open:
            return self.client.send([request])[0]
        self._set.append(request)
        return Result(ok=True, status="queued", id=request.id, trajectory_id=self.id)

    def again(self) -> "Trajectory":
        """Another one with the same options, and a new id unless one was given."""
        return Trajectory(self.client, self._given_id, send=self._send, **self._options)

    def rewarded_by(self, returned: Any) -> None:
        """Sets what `reward_of` makes of a decorated function's result. What it raises is logged."""
        if (reward_of := self._options.get("reward_of")) is None:
            return
        try:
            value = reward_of(returned)
        except Exception as error:
            told([failed_by(error)], raises=False)
            if self.client.is_raising:
                raise
        else:
            self.reward(value)

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]:
        return decorated(function, self)

    def __enter__(self) -> Self:
        self._num_open += 1
        openai_clients.watch()
        opened.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._post(self._left(error), is_raising=self.client.is_raising and error is None)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        requests = self._left(error)
        if requests:  # what cancels the task meanwhile does not stop the post
            await asyncio.shield(
                self._post_awaited(requests, is_raising=self.client.is_raising and error is None)
            )

    def _left(self, error: BaseException | None) -> list[Request]:
        """What is to be posted now that a block has ended."""
        opened.leave(self)
        openai_clients.unwatch()
        self._num_open -= 1
        value = self._options.get("on_exception_reward")
        if isinstance(error, Exception) and value is not None and not self._set:
            self._set_reward(value)
        if self._num_open > 0:
            return []
        requests, self._set = self._set, []
        return requests

    def _set_reward(self, value: Any) -> None:
        request = tried(lambda: judgement.reward(self, value, {}))
        if isinstance(request, Request):
            self._set.append(request)
        else:
            told([request], raises=False)

    def _post(self, requests: list[Request], *, is_raising: bool) -> None:
        if requests:
            self.results += self.client.send(requests, raises=is_raising)

    async def _post_awaited(self, requests: list[Request], *, is_raising: bool) -> None:
        if self._send is None:
            await asyncio.to_thread(self._post, requests, is_raising=is_raising)
        else:
            self.results += await self._send(requests, raises=is_raising)

    def _arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return openai_clients.arguments_for(self, given)


@overload
def trajectory(id: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def trajectory(
    id: str | None = None,
    *,
    client: Client | None = None,
    **options: Unpack[TrajectoryOptions],
) -> Trajectory: ...
def trajectory(
    id: Any = None,
    *,
    client: Client | None = None,
    **options: Unpack[TrajectoryOptions],
) -> Any:
    """A trajectory as a context manager, also asynchronous, or as a decorator: then each call is one.

    Without `client`, one with what the environment says.
    """
    client = client or _client_at(Address.of(None, None))
    if callable(id):
        return Trajectory(client)(id)
    return Trajectory(client, id, **options)


@lru_cache(maxsize=8)
def _client_at(_: Address) -> Client:
    """One for all trajectories that were given none, as long as the environment says the same."""
    return Client()
