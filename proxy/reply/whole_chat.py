"""A whole chat reply in the layout that vLLM writes, cut by marks: nine tenths of it are never parsed piece by piece.

Invariant: what it returns are the bytes that the general way gives, and the values that a parser reads (a property test
holds both ways against each other). Anything that is written otherwise is left to the general way.
"""

from typing import Any

import msgspec

from ledger.token_ids import TokenIds
from proxy.reply.token_spans import Tokens, cut_prompt_ids, cut_tokens

_PROMPT_TEXT = b',"prompt_text":null'
_TOKEN_KEYS = {"token_ids", "prompt_token_ids"}
_read = msgspec.json.Decoder().decode


class WholeChat:
    """What was read, before anyone took it: `text` is what the client may see, but for the model's name."""

    __slots__ = ("body", "prompt_ids", "text", "tokens")

    def __init__(
        self, text: bytes, body: dict[str, Any], tokens: Tokens, prompt_ids: TokenIds | None
    ) -> None:
        self.text = text
        self.body = body
        self.tokens = tokens
        self.prompt_ids = prompt_ids


def read_whole_chat(raw: bytes, *, shows_prompt_text: bool) -> WholeChat | None:
    """None if the general way must read it."""
    rest, tokens = cut_tokens(raw)
    rest, prompt_ids = cut_prompt_ids(rest)
    try:
        body = _read(rest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(body, dict) or not _is_plain(body, len(tokens)):
        return None
    if not shows_prompt_text and "prompt_text" in body:
        if body["prompt_text"] is not None or rest.count(_PROMPT_TEXT) != 1:
            return None
        rest = rest.replace(_PROMPT_TEXT, b"")
    return WholeChat(rest, body, tokens, prompt_ids)


def _is_plain(body: dict[str, Any], num_cut: int) -> bool:
    """Whether nothing is left in it that the client may not see, and each choice has what was cut from it."""
    choices = body.get("choices")
    return (
        isinstance(choices, list)
        and num_cut in {0, len(choices)}
        and "prompt_token_ids" not in body
        and all(isinstance(choice, dict) for choice in choices)
        and not any(choice.get("logprobs") or choice.keys() & _TOKEN_KEYS for choice in choices)
    )
