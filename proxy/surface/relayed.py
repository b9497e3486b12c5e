"""Routes that are relayed and not captured, because nothing is sampled there: embeddings, and Anthropic's token count."""

from proxy.errors import anthropic_envelope
from proxy.reply.opaque import OpaqueReply
from proxy.settings import ProxySettings
from proxy.surface.document import Document
from proxy.surface.endpoint import Endpoint
from proxy.surface.request import Asked, ModelRequest, checked_model


def _understand(document: Document, settings: ProxySettings) -> ModelRequest:
    """Raises InvalidRequestError. Every form of `input`, `encoding_format` and the like is the server's to judge."""
    del settings
    checked_model(document.values)
    return ModelRequest(document, is_streamed=False, asked=Asked())


def _new_reply(request: ModelRequest, dispatched_model: str, public_model: str) -> OpaqueReply:
    del request
    return OpaqueReply(dispatched_model=dispatched_model, public_model=public_model)


EMBEDDINGS = Endpoint("/v1/embeddings", _understand, _new_reply, is_captured=False)
COUNT_TOKENS = Endpoint(
    "/v1/messages/count_tokens", _understand, _new_reply, anthropic_envelope, is_captured=False
)
