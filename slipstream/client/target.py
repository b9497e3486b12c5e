"""What a judgement is about, as the text that the proxy knows it by."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from slipstream.client.result import InvalidArgumentError


def target_of(target: Any) -> str:
    """The text of a trajectory, a reply or an id. Raises InvalidArgumentError.

    A reply is anything with an `id`: one of the openai SDK, or its JSON. Frameworks whose messages have ids of their own
    keep the reply's beside it: LangChain in `response_metadata`, pydantic-ai in `provider_response_id`.
    """
    if isinstance(target, str | UUID) or (isinstance(target, int) and not isinstance(target, bool)):
        text = str(target)
    else:
        text = _reply_id(target)
    if not text.strip():
        raise InvalidArgumentError(
            "The target is empty: give a trajectory's id, a reply, or an id of your own."
        )
    return text


def _reply_id(target: Any) -> str:
    metadata = getattr(target, "response_metadata", None)
    found = (
        metadata.get("id") if isinstance(metadata, Mapping) else None,
        getattr(target, "provider_response_id", None),
        target.get("id") if isinstance(target, Mapping) else getattr(target, "id", None),
    )
    for one in found:
        if isinstance(one, str | UUID):
            return str(one)
    raise InvalidArgumentError(
        f"{type(target).__name__} is no target: give a trajectory's id, a reply, or an id of your own."
    )
