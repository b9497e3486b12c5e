"""Media in a request: a model server that fetches addresses for strangers reaches into its own network (CVE-2026-24779),
and one that decodes their tensors trusts them. A text model needs neither.
"""

from collections.abc import Iterator
from typing import Any

from proxy.errors import InvalidRequestError
from proxy.settings import ProxySettings

MEDIA_KEYS = frozenset(
    {"audio_embeds", "audio_url", "image_embeds", "image_pil", "image_url", "input_audio", "input_image", "prompt_embeds",
     "video_embeds", "video_url"}
)  # fmt: skip
"""Parts of content that the pinned vLLM takes for media, by type or by a key of that name (a test compares)."""

MEDIA_TYPES = MEDIA_KEYS | {"audio", "document", "file", "image", "input_file", "input_video", "video"}
_HOLDS_PARTS = ("content", "output", "source")


def check_media(value: Any, name: str, settings: ProxySettings) -> None:
    """Raises InvalidRequestError for a message, an item or a system prompt that holds media, however deep."""
    if settings.allows_media or isinstance(value, str):
        return
    for part in _parts_of(value):
        kind = part.get("type")
        if isinstance(kind, str) and kind in MEDIA_TYPES:
            raise _refused(kind, name)
        if part.keys() & MEDIA_KEYS and (
            key := next((k for k in MEDIA_KEYS if part.get(k) is not None), None)
        ):
            raise _refused(key, name)


def _refused(kind: str, name: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"'{name}' holds a part of type '{kind}': this server answers text only (an operator with a multimodal model "
        "sets SLIPSTREAM_ALLOWS_MEDIA=true).",
        param=name,
    )


def _parts_of(value: Any) -> Iterator[dict[str, Any]]:
    """Messages, their parts, and the parts of tool results in them. A loop, because a request may be nested deeply."""
    waiting = [value]
    while waiting:
        held = waiting.pop()
        if isinstance(held, list):
            waiting += held
        elif isinstance(held, dict):
            yield held
            waiting += [held[key] for key in _HOLDS_PARTS if isinstance(held.get(key), list | dict)]
