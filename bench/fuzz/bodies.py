"""Mutations of the JSON: right framing, odd content."""

import copy
import json
import random
from typing import Any

from bench.fuzz.case import Case, once
from bench.fuzz.seeds import BODIES, post

_ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 65, 1.5, -0.0, 1e308, 2**31, 2**63, -(2**63) - 1, 10**400, "", " ", "a" * 70_000, "\x00", "\ud800",
    "\udfff\ud800", "🙂", "\u202e", "NaN", "1", "true", [], {}, [[]], [None], [0], [""], {"": ""}, {"a": {"b": [1]}}, [[[[[[]]]]]],
    [{"role": "user"}], [{"role": 1, "content": {}}], [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}],
    float("nan"), float("inf"), float("-inf"), "data:image/png;base64,AAAA", list(range(3000)), {str(i): i for i in range(300)},
)  # fmt: skip
_FIELDS = (
    "model", "messages", "n", "stream", "stream_options", "logprobs", "top_logprobs", "max_tokens", "max_completion_tokens", "seed",
    "stop", "temperature", "top_p", "top_k", "tools", "tool_choice", "response_format", "metadata", "user", "store", "prompt", "input",
    "include", "echo", "suffix", "best_of", "chat_template", "chat_template_kwargs", "prompt_embeds", "cache_salt", "priority",
    "return_token_ids", "kv_transfer_params", "reward", "choice", "comment", "metric", "source", "id", "observed_at", "request_id",
    "reply_id", "safety_identifier", "system", "stop_sequences", "max_output_tokens", "reasoning", "text", "previous_response_id", "",
    "\x00", "\ud800", "__proto__",
)  # fmt: skip
_RAW = (
    b"", b" ", b"null", b"[]", b"1", b'"x"', b"{", b"{}", b'{"a":1,}', b"{'a':1}", b"\xef\xbb\xbf{}", b"\xff\xfe{\x00}\x00",
    b'{"messages":' + b"[" * 100_000, b'{"messages":' + b'{"a":' * 50_000, b'{"n":' + b"9" * 5000 + b',"messages":[]}',
    b'{"messages":[],"messages":[{"role":"user","content":"x"}],"model":"a","model":"b"}', b'{"messages":[{"role":"user","content":"\xff"}]}',
    b'{"messages":[{"role":"user","content":"\\ud800"}],"stream":true}', b'{"messages":[{"role":"user","content":"\\u0000"}]}',
    b'{"messages":[],"temperature":NaN}', b'{"messages":[],"temperature":-Infinity}', b'{"messages":[]}garbage', b'{"messages":[]}\x00',
    b'{"\\u006dessages":[{"role":"user","content":"x"}],"\\u006dodel":"default@base"}', b'{"messages":[]}' + b" " * 300_000,
    b'{"input":"a"}', b'{"prompt":""}', b'{"prompt":[[]]}', b'{"prompt":[1,"a",[2]]}', b'{"input":[{"type":"message"}]}', b'{"reward":1e400}',
    b'{"reward":"NaN"}', b'{"reward":0.1,"reward":0.9}',
)  # fmt: skip


def odd_member(rng: random.Random, name: str) -> Case:
    """Members added or replaced, at the top or deeper."""
    path = rng.choice(list(BODIES))
    body = copy.deepcopy(rng.choice(BODIES[path]))
    for _ in range(rng.choice((1, 1, 2, 3))):
        if rng.random() < 0.6:
            body[rng.choice(_FIELDS)] = _odd_value(rng)
        else:
            _replace_inside(rng, body)
    return once("odd member", _post(path, _dumps(rng, body), name))


def raw_body(rng: random.Random, name: str) -> Case:
    return once("raw body", _post(rng.choice(list(BODIES)), rng.choice(_RAW), name))


def _replace_inside(rng: random.Random, value: Any) -> None:
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return
    key = rng.choice(keys)
    if isinstance(value[key], dict | list) and rng.random() < 0.7:
        _replace_inside(rng, value[key])
    else:
        value[key] = _odd_value(rng)


def _odd_value(rng: random.Random) -> Any:
    """One of its own: what a case changes inside it must not reach the next case, nor contain itself."""
    return copy.deepcopy(rng.choice(_ODD_VALUES))


def _dumps(rng: random.Random, body: Any) -> bytes:
    is_escaped = rng.random() < 0.5
    text = json.dumps(body, ensure_ascii=is_escaped, indent=rng.choice((None, None, 1)))
    return text.encode("utf-8", "surrogatepass")


def _post(path: str, raw: bytes, name: str) -> bytes:
    return post(path, None, name).with_body(raw).encoded()


MUTATIONS = (odd_member, odd_member, odd_member, raw_body)
