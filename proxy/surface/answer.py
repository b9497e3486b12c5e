"""POST /v1/chat/completions: who asks, where it belongs, which version answers. Then the call runs.

No database, no pydantic and no framework on this path.
"""

from datetime import UTC, datetime
from uuid import UUID

from starlette.types import Receive, Scope, Send

from ledger.identifiers import new_call_id
from ledger.records import Attribution, CallRecord
from ledger.vocabulary import DEFAULT_PROJECT, ExchangeStatus
from proxy.attribution import attribute
from proxy.body import read_body, read_headers
from proxy.call import Call
from proxy.call_log import CallLog
from proxy.live import Target
from proxy.parts import Parts
from proxy.surface.request import ChatRequest, parse_chat_request

ENDPOINT = "/v1/chat/completions"
_MAX_REQUEST_ID = 128


async def answer_chat(
    parts: Parts, scope: Scope, receive: Receive, send: Send, session_id: str | None
) -> None:
    """Raises ProxyError for everything that ends before the call was accepted."""
    started_at = datetime.now(UTC)
    headers = read_headers(scope["headers"], parts.settings)
    raw = await read_body(receive, headers, parts.settings)
    request = parse_chat_request(raw, max_choices=parts.settings.max_choices)
    attribution = attribute(session_id, headers, request.body)
    target = parts.live.resolve(request.requested_model)
    record = accepted_record(parts, request, attribution, target, headers, started_at)
    is_captured = headers.get("x-slipstream-capture", "").strip().lower() != "off"
    await Call(parts, request, target, CallLog(parts, record, is_captured=is_captured)).run(receive, send)


def accepted_record(  # noqa: PLR0917 - what a record is made of
    parts: Parts,
    request: ChatRequest,
    attribution: Attribution,
    target: Target,
    headers: dict[str, str],
    started_at: datetime,
) -> CallRecord:
    """The call as it stands before vLLM sees it: this is what remains if the process dies."""
    body, call_id = request.body, new_call_id()
    return CallRecord(
        call_id=call_id,
        project=DEFAULT_PROJECT,
        policy=target.policy.name,
        version=target.version,
        attribution=attribution,
        request_id=_request_id(headers, call_id),
        endpoint=ENDPOINT,
        is_streamed=request.is_streamed,
        requested_model=request.requested_model,
        messages=request.messages,
        request={key: value for key, value in body.items() if key != "messages"},
        started_at=started_at,
        status=ExchangeStatus.INTERRUPTED,
        num_choices=request.num_choices,
        expected_model=target.upstream_model,
        client_name=headers.get("user-agent"),
        temperature=request.number("temperature", parts.settings.default_temperature),
        top_p=request.number("top_p"),
        top_k=request.integer("top_k"),
        max_tokens=request.integer("max_completion_tokens") or request.integer("max_tokens"),
        seed=request.integer("seed"),
    )


def _request_id(headers: dict[str, str], call_id: UUID) -> str:
    theirs = headers.get("x-request-id", "").strip()
    is_usable = theirs and theirs.isascii() and theirs.isprintable() and len(theirs) <= _MAX_REQUEST_ID
    return theirs if is_usable else call_id.hex
