"""POST /v1/messages: Anthropic's, relayed to vLLM's own and kept. vLLM tells no token ids there: never trained."""

from proxy.errors import InvalidRequestError, anthropic_envelope
from proxy.reply.messages import MessagesReply
from proxy.settings import ProxySettings
from proxy.surface import limits
from proxy.surface.document import Document
from proxy.surface.endpoint import Endpoint
from proxy.surface.fields import dropped_fields
from proxy.surface.media import check_media
from proxy.surface.request import Asked, ModelRequest, checked_model

PATH = "/v1/messages"


def understand_message(document: Document, settings: ProxySettings) -> ModelRequest:
    """Raises InvalidRequestError."""
    values = document.values
    checked_model(values)
    if not isinstance(values.get("messages"), list):
        raise InvalidRequestError("'messages' must be a list of messages.", param="messages")
    check_media(values["messages"], "messages", settings)
    check_media(values.get("system"), "system", settings)
    limits.check_stop(values, "stop_sequences", settings)
    limits.check_tools(values, settings)
    return ModelRequest(
        document,
        is_streamed=document.flag("stream"),
        asked=Asked(),
        prompt_key="messages",
        dropped=dropped_fields(PATH, values),
        max_tokens=limits.checked_max_tokens(values, "max_tokens", settings=settings),
    )


def _new_reply(request: ModelRequest, dispatched_model: str, public_model: str) -> MessagesReply:
    del request
    return MessagesReply(dispatched_model=dispatched_model, public_model=public_model)


MESSAGES = Endpoint(PATH, understand_message, _new_reply, anthropic_envelope, names_events=True)
