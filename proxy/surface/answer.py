"""The way of every request of the data plane: who asks, where it belongs, which version answers. Then the call runs.

No database, no pydantic and no framework on this path.
"""

from datetime import UTC, datetime

from starlette.types import Receive, Scope, Send

from ledger.identifiers import new_call_id
from ledger.records import Attribution, CallRecord
from ledger.vocabulary import ExchangeStatus
from proxy.access.caller import Caller
from proxy.attribution import attribute
from proxy.body import read_body, usable_request_id
from proxy.call import Call
from proxy.call_log import CallLog
from proxy.exploration import explored, is_explorable, sampling_of
from proxy.external.model import external_model
from proxy.external.request import understand_external
from proxy.live import Target
from proxy.parts import Parts
from proxy.surface.chat import CHAT
from proxy.surface.completions import COMPLETIONS
from proxy.surface.document import Document
from proxy.surface.endpoint import Endpoint
from proxy.surface.messages import MESSAGES
from proxy.surface.relayed import COUNT_TOKENS, EMBEDDINGS
from proxy.surface.request import ModelRequest, checked_model
from proxy.surface.responses import RESPONSES
from proxy.upstream.dispatch import dispatched

ENDPOINTS = {
    endpoint.path: endpoint for endpoint in (CHAT, COMPLETIONS, RESPONSES, MESSAGES, EMBEDDINGS, COUNT_TOKENS)
}
_MAX_RETRIES = 1000


async def answer(  # noqa: PLR0917 - what a call comes with
    parts: Parts,
    endpoint: Endpoint,
    scope: Scope,
    receive: Receive,
    send: Send,
    session_id: str | None,
    headers: dict[str, str],
    caller: Caller,
) -> None:
    """Raises ProxyError for everything that ends before the call was accepted."""
    started_at = datetime.now(UTC)
    with parts.open_bodies.room() as room:
        raw = await read_body(receive, headers, parts.settings, room)
        document = Document.parse(raw)
        checked_model(document.values)
        requested = document.values.get("model") or ""
        target = parts.live.resolve(requested, caller.project)
        external = external_model(requested, target, parts.external.providers)
        if external:
            request = understand_external(endpoint, document, parts.settings)
        else:
            request = endpoint.understand(document, parts.settings)
        attribution = attribute(session_id, headers, request.body)
        record = accepted_record(parts, endpoint, request, attribution, target, headers, started_at, caller)
        is_captured = (
            endpoint.is_captured and headers.get("x-slipstream-capture", "").strip().lower() != "off"
        )
        call_id = record.call_id.hex
        if external:
            record = external.record(record, document.number("temperature"))
        turn = await parts.conversations.place(record, request.body, is_captured=is_captured)
        if external:
            reply = endpoint.new_reply(request, external.name, external.name)
            dispatch = parts.external.dispatched(external, endpoint.path, request, call_id)
        else:
            if is_captured and is_explorable(request, record, target):
                turn.record = explored(turn.record, parts.settings, parts.metrics)
            reply = endpoint.new_reply(request, target.upstream_model, target.public_model)
            body = request.upstream_body(
                target.upstream_model, call_id, is_captured=is_captured, sampling=sampling_of(turn.record)
            )
            dispatch = dispatched(parts, target, endpoint.path, body, call_id, request.affinity)
        call_log = CallLog(parts, turn, reply.capture, is_captured=is_captured)
        await Call(parts, endpoint, reply, dispatch, call_log).run(scope, send)


def accepted_record(  # noqa: PLR0917 - what a record is made of
    parts: Parts,
    endpoint: Endpoint,
    request: ModelRequest,
    attribution: Attribution,
    target: Target,
    headers: dict[str, str],
    started_at: datetime,
    caller: Caller,
) -> CallRecord:
    """The call as it stands before vLLM sees it: this is what remains if the process dies."""
    document, call_id = request.document, new_call_id()
    return CallRecord(
        call_id=call_id,
        project=caller.project,
        key_id=caller.key_id,
        policy=target.policy.name,
        version=target.version,
        attribution=attribution,
        request_id=usable_request_id(headers) or call_id.hex,
        endpoint=endpoint.path,
        is_streamed=request.is_streamed,
        requested_model=request.requested_model,
        messages=None,
        request={},
        raw_request=document.raw,
        prompt_key=request.prompt_key,
        started_at=started_at,
        status=ExchangeStatus.INTERRUPTED,
        num_choices=request.num_choices,
        num_prompts=request.num_prompts,
        expected_model=target.upstream_model,
        client_name=headers.get("user-agent"),
        request_sha256=request.sha256,
        num_retries=_num_retries(headers),
        temperature=document.number("temperature", parts.settings.default_temperature),
        top_p=document.number("top_p"),
        top_k=document.integer("top_k"),
        max_tokens=request.max_tokens,
        seed=document.integer("seed"),
    )


def _num_retries(headers: dict[str, str]) -> int:
    count = headers.get("x-stainless-retry-count", "")
    return (
        min(int(count), _MAX_RETRIES)
        if count.isascii() and count.isdigit() and len(count) <= len("1000")
        else 0
    )
