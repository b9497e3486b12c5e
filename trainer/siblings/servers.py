"""Asking a vLLM that is idle, and letting go of it as soon as traffic comes.

Invariant: a server that does not say how busy it is, is busy; a request that is given up closes its connection, upon
which vLLM aborts the answer.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import httpx2

from ledger.policies import Policy, adapter_name
from trainer.siblings.errors import BusyError, SamplingError
from trainer.siblings.load import load_of
from trainer.siblings.settings import SiblingSettings

OK = 200
_LOOK_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Place:
    """An idle server, and the version that it will answer with under `model`."""

    url: str
    version: int
    model: str


class Servers:
    """An async context manager over one connection pool."""

    def __init__(self, settings: SiblingSettings, urls: Sequence[str]) -> None:
        self._settings = settings
        self._urls = urls
        timeout = httpx2.Timeout(settings.timeout_seconds, connect=min(5.0, settings.timeout_seconds))
        self._client = httpx2.AsyncClient(timeout=timeout, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def idle_place(self, policy: Policy, version: int) -> Place:
        """With this version, or else the live one. Raises BusyError."""
        idle = [url for url in self._urls if await self.is_idle(url)]
        names = {url: await self._names(url) for url in idle}
        for wanted in (version, policy.live_version):
            model = policy.base_model if wanted == 0 else adapter_name(policy.line, wanted)
            for url in idle:
                if model in names[url]:
                    return Place(url, wanted, model)
        raise BusyError

    async def is_any_idle(self) -> bool:
        return any([await self.is_idle(url) for url in self._urls])

    async def is_idle(self, url: str, num_ours: int = 0) -> bool:
        answer = await self._looked_at(f"{url}/metrics")
        load = load_of(answer.text) if answer is not None else None
        return load is not None and load.is_idle(self._settings.max_running + num_ours)

    async def _names(self, url: str) -> set[str]:
        answer = await self._looked_at(f"{url}/v1/models")
        try:
            return {str(model["id"]) for model in answer.json()["data"]} if answer is not None else set()
        except (LookupError, TypeError, ValueError):
            return set()

    async def _looked_at(self, url: str) -> httpx2.Response | None:
        try:
            answer = await self._client.get(url, timeout=_LOOK_TIMEOUT_SECONDS)
        except httpx2.TransportError:
            return None
        return answer if answer.status_code == OK else None

    async def ask(self, place: Place, endpoint: str, body: Mapping[str, Any], call_id: str) -> Any:
        """The reply. Raises BusyError if traffic comes meanwhile, SamplingError for a failure."""
        headers = {"X-Request-Id": call_id}
        asking = asyncio.ensure_future(
            self._client.post(f"{place.url}{endpoint}", json=body, headers=headers)
        )
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                while not (await asyncio.wait({asking}, timeout=self._settings.look_seconds))[0]:
                    if not await self.is_idle(place.url, num_ours=1):
                        raise BusyError
                answer = asking.result()
        except (TimeoutError, httpx2.TransportError) as error:
            raise SamplingError(f"{place.url} did not answer ({type(error).__name__}).") from error
        finally:
            asking.cancel()
            await asyncio.wait({asking})
        if answer.status_code != OK:
            raise SamplingError(f"{place.url} answers {answer.status_code}.")
        try:
            return answer.json()
        except ValueError as error:
            raise SamplingError(f"{place.url} answers no JSON.") from error
