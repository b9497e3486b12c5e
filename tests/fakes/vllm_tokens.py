"""The fake's language: token `i` is the text ` w<i>`, and everything follows from a checksum."""

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any

END_ID = 2


@dataclass(frozen=True)
class Token:
    id: int
    text: str
    logprob: float

    def as_logprob(self, top: int, model: str) -> dict[str, Any]:
        entry = {"token": self.text, "logprob": self.logprob, "bytes": list(self.text.encode())}
        others = [{**entry, "token": f" t{k}", "logprob": self.logprob - k} for k in range(1, top)]
        return {**entry, "top_logprobs": ([entry, *others] if top else [])}


def checksum(*parts: object) -> int:
    return zlib.crc32("|".join(map(str, parts)).encode(errors="replace"))


def token_at(model: str, prompt_ids: list[int], seed: Any, choice: int, position: int) -> Token:
    """Its logprob is a float32, printed with all its digits, as vLLM does."""
    number = checksum(model, prompt_ids, seed, choice, position)
    token_id = 100 + number % 1000
    logprob = struct.unpack("f", struct.pack("f", -(number % 5003) / 997 - 0.001))[0]
    return Token(token_id, f" w{token_id}", logprob)


def prompt_ids_of(messages: Any) -> list[int]:
    """One id per four bytes of the messages' JSON, between a begin and an end mark."""
    raw = json.dumps(messages).encode()
    return [1, *(10 + checksum(raw[i : i + 4]) % 48000 for i in range(0, len(raw), 4)), 3]


@dataclass(frozen=True)
class Choice:
    tokens: list[Token]
    finish: str
    stop: str | None  # the stop string that ended it

    @property
    def text(self) -> str:
        whole = "".join(token.text for token in self.tokens)
        return whole[: whole.index(self.stop)] if self.stop else whole

    @property
    def ids(self) -> list[int]:
        return [token.id for token in self.tokens]

    def pieces(self) -> list[str]:
        """What each token adds to the visible text."""
        made, limit, pieces = 0, len(self.text), []
        for token in self.tokens:
            end = min(made + len(token.text), limit)
            pieces.append(token.text[: max(end - made, 0)])
            made = end
        return pieces


def choice_of(
    model: str, prompt_ids: list[int], body: dict[str, Any], k: int, *, max_tokens: int, stop: Any = None
) -> Choice:
    """A stop string ends a choice with the token that completes it."""
    stops = [stop] if isinstance(stop, str) else stop or []
    tokens: list[Token] = []
    for i in range(max_tokens):
        tokens.append(token_at(model, prompt_ids, body.get("seed"), k, i))
        text = "".join(token.text for token in tokens)
        for text_stop in stops:
            if text_stop in text:
                return Choice(tokens, "stop", text_stop)
    if body.get("ignore_eos") is False:  # our switch for an answer that ends by itself
        return Choice([*tokens, Token(END_ID, "", -0.25)], "stop", None)
    return Choice(tokens, "length", None)
