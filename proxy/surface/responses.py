"""POST /v1/responses: relayed to vLLM's own, and trainable where vLLM tells all ids and logprobs (docs/http.md)."""

import json
from typing import Any

from proxy.errors import InvalidRequestError
from proxy.reply.responses import ResponsesReply
from proxy.settings import ProxySettings
from proxy.surface import limits
from proxy.surface.document import Document
from proxy.surface.endpoint import Endpoint
from proxy.surface.fields import dropped_fields
from proxy.surface.media import check_media
from proxy.surface.request import Asked, ModelRequest, checked_model

PATH = "/v1/responses"
_LOGPROBS = "message.output_text.logprobs"


def understand_response(document: Document, settings: ProxySettings) -> ModelRequest:
    """Raises InvalidRequestError."""
    values = document.values
    checked_model(values)
    if not isinstance(values.get("input"), str | list):
        raise InvalidRequestError("'input' must be a string or a list of items.", param="input")
    check_media(values["input"], "input", settings)
    limits.checked_logprobs(values, "top_logprobs", settings)
    limits.check_stop(values, "stop", settings)
    limits.check_tools(values, settings)
    include = values.get("include")
    wants_logprobs = isinstance(include, list) and _LOGPROBS in include
    return ModelRequest(
        document,
        is_streamed=document.flag("stream"),
        asked=Asked(logprobs=wants_logprobs, token_ids=bool(values.get("enable_response_messages"))),
        prompt_key="input",
        additions=_capture_fields(include, wants_logprobs=wants_logprobs),
        reply_id_field="request_id",
        can_teach=not document.flag("stream") and not values.get("tools"),
        dropped=dropped_fields(PATH, values),
        max_tokens=limits.checked_max_tokens(values, "max_output_tokens", settings=settings),
    )


def _capture_fields(include: Any, *, wants_logprobs: bool) -> dict[str, str]:
    ids = {"enable_response_messages": "true"}
    if wants_logprobs or not isinstance(include, list | None):
        return ids
    return {**ids, "include": json.dumps([*(include or ()), _LOGPROBS])}


def _new_reply(request: ModelRequest, dispatched_model: str, public_model: str) -> ResponsesReply:
    return ResponsesReply(
        dispatched_model=dispatched_model,
        public_model=public_model,
        wants_ids=request.asked.token_ids,
        wants_logprobs=request.asked.logprobs,
    )


RESPONSES = Endpoint(PATH, understand_response, _new_reply, names_events=True)
