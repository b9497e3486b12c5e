"""Asks a server for the scenarios and keeps every piece of its replies."""

import asyncio
import json

import aiohttp

from tests.corpus import chat, completions, messages, responses
from tests.corpus.recording import KEPT_HEADERS, Recorded
from tests.corpus.scenario import Asked, Scenario

SCENARIOS = [*chat.SCENARIOS, *completions.SCENARIOS, *responses.SCENARIOS, *messages.SCENARIOS]


def scenarios(server: str) -> list[Scenario]:
    return [scenario for scenario in SCENARIOS if scenario.server == server]


def sent_body(asked: Asked, model: str) -> bytes | None:
    if isinstance(asked.body, dict):
        return json.dumps({"model": model, **asked.body}, ensure_ascii=False).encode()
    return None if asked.body is None else asked.body.encode()


async def ask(session: aiohttp.ClientSession, asked: Asked, model: str) -> Recorded:
    headers = {"Content-Type": "application/json", **asked.headers}
    sent = sent_body(asked, model)
    async with session.request(asked.method, asked.path, data=sent, headers=headers) as response:
        pieces, piece, is_broken = [], b"", False
        try:
            async for data, is_end in response.content.iter_chunks():
                piece += data
                if is_end:
                    pieces.append(piece)
                    piece = b""
        except aiohttp.ClientPayloadError:
            is_broken = True
        kept = {key: response.headers[key] for key in KEPT_HEADERS if key in response.headers}
    chunks = (each.decode() for each in (*pieces, piece) if each)
    return Recorded(asked, response.status, kept, tuple(chunks), is_broken)


async def ask_all(session: aiohttp.ClientSession, scenario: Scenario, model: str) -> list[Recorded]:
    """All ways at once: a step of a batch costs a CPU hardly more than a step of one."""
    return await asyncio.gather(*(ask(session, asked, scenario.model or model) for asked in scenario.asked()))


def connected(url: str) -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=300)
    return aiohttp.ClientSession(
        url, timeout=timeout, auto_decompress=False, skip_auto_headers=("User-Agent",)
    )


async def served(session: aiohttp.ClientSession) -> tuple[str, str]:
    """The server's version and the name of its base model."""
    async with session.get("/version") as version, session.get("/v1/models") as models:
        return (await version.json())["version"], (await models.json())["data"][0]["id"]
