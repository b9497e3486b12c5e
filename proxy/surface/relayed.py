"""Routes that are relayed and not captured, because nothing is sampled there: embeddings, and Anthropic's token count."""

from collections.abc import Callable

from proxy.errors import Envelope, anthropic_envelope, openai_envelope
from proxy.reply.opaque import OpaqueReply
from proxy.settings import ProxySettings
from proxy.surface import limits
from proxy.surface.document import Document
from proxy.surface.endpoint import Endpoint
from proxy.surface.fields import dropped_fields
from proxy.surface.media import check_media
from proxy.surface.request import Asked, ModelRequest, checked_model


def _understanding(path: str) -> Callable[[Document, ProxySettings], ModelRequest]:
    """Every form of `input`, `encoding_format` and the like is the server's to judge; what reaches into it is not."""

    def understand(document: Document, settings: ProxySettings) -> ModelRequest:
        values = document.values
        checked_model(values)
        for name in ("input", "messages", "system"):
            check_media(values.get(name), name, settings)
        limits.check_tools(values, settings)
        return ModelRequest(document, is_streamed=False, asked=Asked(), dropped=dropped_fields(path, values))

    return understand


def _new_reply(request: ModelRequest, dispatched_model: str, public_model: str) -> OpaqueReply:
    del request
    return OpaqueReply(dispatched_model=dispatched_model, public_model=public_model)


def _relayed(path: str, envelope: Envelope = openai_envelope) -> Endpoint:
    return Endpoint(path, _understanding(path), _new_reply, envelope, is_captured=False)


EMBEDDINGS = _relayed("/v1/embeddings")
COUNT_TOKENS = _relayed("/v1/messages/count_tokens", anthropic_envelope)
