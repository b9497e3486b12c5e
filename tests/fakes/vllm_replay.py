"""The fake answers as the real vLLM did: the recorded bytes in the recorded chunks, for the recorded request.

Only what names the call differs: the model that is asked for, and the call's id where the proxy's form gave one.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.corpus.recording import Recorded
from tests.corpus.scenario import CALL_ID, RECORDED_MODEL
from tests.fakes.vllm_stream import send_stream

if TYPE_CHECKING:
    from tests.fakes.vllm import FakeVllm


def matching(replays: Iterable[Recorded], request: web.Request, raw: bytes) -> Recorded | None:
    """The recording whose request is this one, whatever its model, key order and call id.

    Where two differ in nothing else, the one that was named as this one is (X-Request-Id), or not, comes first.
    """
    asked, is_named = _without_names(_body(raw)), "X-Request-Id" in request.headers
    found = None
    for recorded in replays:
        mine = recorded.asked
        if (mine.method, mine.path) != (request.method, request.path) or _without_names(mine.body) != asked:
            continue
        if ("X-Request-Id" in mine.headers) == is_named:
            return recorded
        found = found or recorded
    return found


def _body(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw.decode(errors="surrogateescape")


def _without_names(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    return {key: value for key, value in body.items() if key not in ("model", "request_id")}


async def replay(
    fake: "FakeVllm", request: web.Request, raw: bytes, recorded: Recorded
) -> web.StreamResponse:
    chunks = [_renamed(chunk, request, raw).encode() for chunk in recorded.chunks]
    if "transfer-encoding" in recorded.headers:
        return await send_stream(fake, request, chunks, is_broken=recorded.is_broken)
    content_type = recorded.headers.get("content-type")
    headers = {"content-type": content_type} if content_type else {}
    return web.Response(status=recorded.status, body=b"".join(chunks), headers=headers)


def _renamed(chunk: str, request: web.Request, raw: bytes) -> str:
    body = _body(raw)
    given = body if isinstance(body, dict) else {}
    model = given.get("model", RECORDED_MODEL)
    call_id = given.get("request_id", "").removeprefix("resp_") or request.headers.get(
        "X-Request-Id", CALL_ID
    )
    named = chunk.replace(f'"model":{json.dumps(RECORDED_MODEL)}', f'"model":{json.dumps(model)}')
    return named.replace(CALL_ID, call_id)
