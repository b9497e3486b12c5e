"""Replies of the pinned vLLM as they came over the wire: `### METHOD path`, `### body: …`, then the raw reply."""

import json
from pathlib import Path
from typing import Any

_DIRECTORY = Path(__file__).parent / "recordings"


def recorded(name: str) -> tuple[dict[str, Any], bytes]:
    """The request's body and the reply's body."""
    raw = (_DIRECTORY / f"{name}.txt").read_bytes().replace(b"\r\n", b"\n")
    request, _, reply = raw.partition(b"\n\n")
    body = request.split(b"### body: ")[1] if b"### body: " in request else b"{}"
    content = reply.partition(b"\n\n")[2]
    return json.loads(body), content[:-1] if content.endswith(b"\n") else content


STREAMS = ("stream_plain", "stream_n2_ids_logprobs", "stream_n1_ids_logprobs_usage", "stream_continuous_usage",
           "stream_with_adapter")  # fmt: skip
WHOLE = ("chat_plain", "chat_n2_ids_logprobs", "chat_logprobs_top3", "chat_stop_string", "chat_with_adapter")
