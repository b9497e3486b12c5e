"""POST /v1/chat/completions: trainable. Ids and sampled logprobs are asked for with each call."""

from typing import Any

from proxy.errors import InvalidRequestError
from proxy.reply.choices import ChoicesReply
from proxy.settings import ProxySettings
from proxy.surface import limits
from proxy.surface.document import Document
from proxy.surface.endpoint import Endpoint
from proxy.surface.fields import dropped_fields
from proxy.surface.media import check_media
from proxy.surface.request import Asked, ModelRequest, checked_model

PATH = "/v1/chat/completions"
_CAPTURE_FIELDS = {"return_token_ids": "true", "logprobs": "true", "top_logprobs": "0"}


def understand_chat(document: Document, settings: ProxySettings) -> ModelRequest:
    """Raises InvalidRequestError, naming the field, for what we could not forward or record."""
    values = document.values
    checked_model(values)
    _check_messages(values)
    check_media(values["messages"], "messages", settings)
    limits.checked_logprobs(values, "top_logprobs", settings)
    limits.check_stop(values, "stop", settings)
    limits.check_tools(values, settings)
    return ModelRequest(
        document,
        is_streamed=document.flag("stream"),
        asked=asked_of(document, logprobs=document.flag("logprobs")),
        prompt_key="messages",
        num_choices=limits.checked_choices(values, settings),
        additions=_capture_fields(document),
        can_teach=True,
        dropped=dropped_fields(PATH, values),
        max_tokens=limits.checked_max_tokens(
            values, "max_completion_tokens", "max_tokens", settings=settings
        ),
    )


def _check_messages(values: dict[str, Any]) -> None:
    if "messages" not in values:
        raise InvalidRequestError("'messages' is missing: send a list of messages.", param="messages")
    if not isinstance(values["messages"], list):
        raise InvalidRequestError("'messages' must be a list of messages.", param="messages")


def _capture_fields(document: Document) -> dict[str, str]:
    """What is not asked for yet. `top_logprobs` without `logprobs` stays the error that vLLM makes of it."""
    if document.flag("logprobs"):
        return {"return_token_ids": "true"}
    if document.values.get("top_logprobs"):
        return {}
    return _CAPTURE_FIELDS


def asked_of(document: Document, *, logprobs: bool) -> Asked:
    """Of a request that vLLM answers with choices."""
    options = document.values.get("stream_options")
    token_ids = document.flag("return_token_ids")
    return Asked(
        logprobs=logprobs,
        token_ids=token_ids,
        prompt_text=token_ids or document.flag("return_prompt_text"),
        usage=not document.flag("stream")
        or (isinstance(options, dict) and bool(options.get("include_usage"))),
    )


def new_choices_reply(request: ModelRequest, dispatched_model: str, public_model: str) -> ChoicesReply:
    return ChoicesReply(
        request.asked,
        dispatched_model,
        public_model,
        num_choices=request.num_choices,
        is_streamed=request.is_streamed,
        is_chat=request.prompt_key == "messages",
    )


CHAT = Endpoint(PATH, understand_chat, new_choices_reply)
