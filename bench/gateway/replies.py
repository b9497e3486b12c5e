"""vLLM 0.32's replies as prepared bytes: whole or event by event, with ids and logprobs only where asked for.

Invariant: key for key what the fake of the tests writes (a test holds them together). Nothing is encoded per call.
"""

import json
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

FINGERPRINT = "vllm-0.32.0-b8c5b1ff"
BYTES_PER_TOKEN = 4  # of a prompt: English text in a large vocabulary
DONE = b"data: [DONE]\n\n"
_WORDS = [
    "",
    "the",
    "order",
    "was",
    "shipped",
    "on",
    "a",
    "grey",
    "morning,",
    "and",
    "nobody",
    "at",
    "the",
    "depot",
    "could",
    "say",
    "why",
    "it",
    "took",
    "so",
    "long",
]


@dataclass(frozen=True)
class Asked:
    """What of a request shapes its reply. Ids and logprobs come and go together, as capture asks for both."""

    num_tokens: int = 16
    num_prompt_tokens: int = 1
    has_ids: bool = False
    has_logprobs: bool = False
    has_usage: bool = False  # in a stream


def token_text(i: int) -> str:
    return f" {_WORDS[i % len(_WORDS)]}"


def text_of(num_tokens: int) -> str:
    return "".join(map(token_text, range(num_tokens)))


def whole(asked: Asked, reply_id: bytes, model: bytes) -> bytes:
    return b'{"id":"%b","object":"chat.completion","created":1796016627,"model":"%b",%b' % (
        reply_id,
        model,
        _whole_tail(asked),
    )


def events(asked: Asked, reply_id: bytes, model: bytes) -> list[bytes]:
    """Framed events, role first and `[DONE]` last."""
    head = b'data: {"id":"%b","object":"chat.completion.chunk","created":1796016642,"model":"%b",' % (
        reply_id,
        model,
    )
    return [*(head + tail for tail in _event_tails(asked)), DONE]


def dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _tail(value: dict[str, Any]) -> bytes:
    """Without its opening brace: it goes on behind the head."""
    return dumps(value)[1:].encode()


def token_id(i: int) -> int:
    return 100 + i * 7919 % 49000


def _logprob(i: int) -> dict[str, Any]:
    """A float32 printed with all the digits of a double, as vLLM does."""
    number = struct.unpack("f", struct.pack("f", -(i * 2971 % 5003) / 997 - 0.001))[0]
    text = token_text(i)
    return {"token": text, "logprob": number, "bytes": list(text.encode()), "top_logprobs": []}


def _logprobs(asked: Asked, positions: range) -> dict[str, Any] | None:
    return {"content": [_logprob(i) for i in positions]} if asked.has_logprobs else None


def _ids(asked: Asked, positions: range) -> list[int] | None:
    return [token_id(i) for i in positions] if asked.has_ids else None


def _usage(asked: Asked) -> dict[str, Any]:
    made, prompt = asked.num_tokens, asked.num_prompt_tokens
    return {"prompt_tokens": prompt, "total_tokens": prompt + made, "completion_tokens": made}


@lru_cache(maxsize=64)
def _whole_tail(asked: Asked) -> bytes:
    nulls = dict.fromkeys(("refusal", "annotations", "audio", "function_call", "reasoning"))
    positions = range(asked.num_tokens)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text_of(asked.num_tokens), **nulls},
        "logprobs": _logprobs(asked, positions),
        "finish_reason": "length",
        "stop_reason": None,
        "token_ids": _ids(asked, positions),
        "routed_experts": None,
    }
    details = {"prompt_tokens_details": None, "completion_tokens_details": None}
    after = dict.fromkeys(("prompt_text", "kv_transfer_params", "ec_transfer_params", "metrics"))
    reply: dict[str, Any] = {"choices": [choice], "service_tier": None, "system_fingerprint": FINGERPRINT}
    reply |= {"usage": {**_usage(asked), **details}, "prompt_logprobs": None}
    return _tail({**reply, "prompt_token_ids": _ids(asked, range(asked.num_prompt_tokens)), **after})


@lru_cache(maxsize=64)
def _event_tails(asked: Asked) -> list[bytes]:
    last = asked.num_tokens - 1
    role = {
        "index": 0,
        "delta": {"role": "assistant", "content": ""},
        "logprobs": None,
        "finish_reason": None,
    }
    prompt_ids = _ids(asked, range(asked.num_prompt_tokens))
    made: list[dict[str, Any]] = [{"choices": [role], "prompt_token_ids": prompt_ids, "prompt_text": None}]
    made += [_token_event(asked, i, is_last=i == last) for i in range(asked.num_tokens)]
    if asked.has_usage:
        made.append({"choices": [], "usage": _usage(asked), "system_fingerprint": FINGERPRINT})
    return [_tail(event) + b"\n\n" for event in made]


def _token_event(asked: Asked, i: int, *, is_last: bool) -> dict[str, Any]:
    positions = range(i, i + 1)
    choice: dict[str, Any] = {"index": 0, "delta": {"content": token_text(i)}}
    choice |= {"logprobs": _logprobs(asked, positions), "finish_reason": "length" if is_last else None}
    choice |= {"stop_reason": None} if is_last else {}
    event: dict[str, Any] = {"choices": [{**choice, "token_ids": _ids(asked, positions)}]}
    if is_last and not asked.has_usage:
        event["system_fingerprint"] = FINGERPRINT
    return event
