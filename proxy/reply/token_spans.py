"""Ids and logprobs of a whole chat reply, cut out as text before the rest is parsed: they are nine tenths of it.

Invariant: a span is cut only where JSON allows nothing else. The marks below hold quotes that no JSON string can hold
unescaped, what stands between them is decoded strictly, and the rest is parsed as always; the record and the bytes are
those of the general way (a property test holds them against each other). In doubt nothing is cut.
"""

from typing import Annotated, TypeAlias

import msgspec

from ledger.token_ids import TokenIds
from proxy.reply.choice import MAX_ID

_LOGPROBS, _LOGPROBS_END = b',"logprobs":{"content":[', b',"finish_reason":'
_VALUE_AT = len(b',"logprobs":')
_IDS = b',"token_ids":['
_PROMPT_IDS = b',"prompt_token_ids":['


Tokens: TypeAlias = list[tuple[list[int], list[float]]]  # ids and sampling logprobs, choice by choice


class _Token(msgspec.Struct):
    logprob: float


class _Logprobs(msgspec.Struct, forbid_unknown_fields=True):
    content: list[_Token]


_logprobs = msgspec.json.Decoder(_Logprobs).decode
_ids = msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=0, le=MAX_ID)]]).decode


def cut_tokens(raw: bytes) -> tuple[bytes, Tokens]:
    """The reply with `logprobs: null` and without `token_ids`, and what stood there: ids and sampling logprobs, choice
    by choice in the order of the text. The reply as it was and no tokens, if a choice is written otherwise than vLLM writes it.
    """
    pieces: list[bytes] = []
    tokens: Tokens = []
    at = 0
    while (begin := raw.find(_LOGPROBS, at)) >= 0:
        end = raw.find(_LOGPROBS_END, begin)
        ids = raw.find(_IDS, end)
        ids_end = raw.find(b"]", ids) + 1
        if min(end, ids, ids_end) <= 0 or raw.find(_LOGPROBS, end, ids) >= 0:
            return raw, []
        try:
            logprobs = _logprobs(raw[begin + _VALUE_AT : end]).content
            completion_ids = _ids(raw[ids + len(_IDS) - 1 : ids_end])
        except msgspec.DecodeError:
            return raw, []
        tokens.append((completion_ids, [token.logprob for token in logprobs]))
        pieces += raw[at:begin], b',"logprobs":null', raw[end:ids]
        at = ids_end
    return b"".join([*pieces, raw[at:]]), tokens


def cut_prompt_ids(raw: bytes) -> tuple[bytes, TokenIds | None]:
    """The reply, or the event, without the one `prompt_token_ids` that it holds, and those ids."""
    begin = raw.find(_PROMPT_IDS)
    end = raw.find(b"]", begin)
    text = raw[begin + len(_PROMPT_IDS) : end]
    if begin < 0 or not text or b" " in text or raw.find(_PROMPT_IDS, end) >= 0:
        return raw, None
    try:
        ids = _ids(raw[begin + len(_PROMPT_IDS) - 1 : end + 1])
    except msgspec.DecodeError:  # no JSON, or no id that Postgres could hold
        return raw, None
    return raw[:begin] + raw[end + 1 :], TokenIds(text, len(ids))
