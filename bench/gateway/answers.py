"""What the load generator checks of each answer: whole, and without what nobody asked for. Pure."""

import json
import re

from bench.gateway.replies import text_of
from bench.gateway.wire import dechunked

_LEAKED = re.compile(rb'"(?:prompt_)?token_ids"\s*:\s*\[|"logprobs"\s*:\s*\{')
_FIRST_TOKEN = re.compile(rb'"content"\s*:\s*"[^"]')
_DONE = b"data: [DONE]"


def has_token(data: bytes) -> bool:
    """Whether a piece of a stream shows generated text."""
    return _FIRST_TOKEN.search(data) is not None


def fault_of_whole(head: bytes, body: bytes, num_tokens: int, *, is_parsed: bool) -> str | None:
    if not head.startswith(b"HTTP/1.1 200 "):
        return _status(head, body)
    if _LEAKED.search(body):
        return "ids or logprobs that nobody asked for"
    if is_parsed:
        text = json.loads(body)["choices"][0]["message"]["content"]
        return None if text == text_of(num_tokens) else f"another text: {text[:80]!r}"
    return None


def fault_of_stream(head: bytes, body: bytes, num_tokens: int, *, is_parsed: bool) -> str | None:
    """`body` is as it came: in chunks."""
    if not head.startswith(b"HTTP/1.1 200 "):
        return _status(head, body)
    try:
        frames = dechunked(body).split(b"\n\n")
    except ValueError:
        return "the body is cut"
    if frames[-2:] != [_DONE, b""]:
        return f"no [DONE] at the end: {b' '.join(frames[-2:])[:200]!r}"
    if len(frames) < num_tokens + 2:
        return f"{len(frames) - 2} events for {num_tokens} tokens"
    if _LEAKED.search(body):
        return "ids or logprobs that nobody asked for"
    return _other_text(frames[:-2], num_tokens) if is_parsed else None


def _other_text(frames: list[bytes], num_tokens: int) -> str | None:
    events = [json.loads(frame.removeprefix(b"data: ")) for frame in frames]
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    text = "".join(delta.get("content") or "" for delta in deltas)
    return None if text == text_of(num_tokens) else f"another text: {text[:80]!r}"


def _status(head: bytes, body: bytes) -> str:
    line, _, _ = head.partition(b"\r\n")
    return f"{line!r} {body[:200]!r}"
