"""Calls of about 9 KB as the proxy hands them to its writer: the body as it came, ids as text, logprobs as numbers.

Words are drawn alike often as in English, so that what compresses well in life does here.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from random import Random

from ledger.identifiers import new_call_id, new_id
from ledger.records import Attribution, CallRecord, ChoiceRecord
from ledger.token_ids import TokenIds
from ledger.vocabulary import ExchangeStatus, IdentifiedBy

POLICY = "default"
NUM_PROMPT_WORDS = 700
NUM_COMPLETION_TOKENS = 64
_VOCABULARY = 49_152
_NUM_TEXTS = 200
_random = Random(11)
_WORDS = ["".join(_random.choices("etaoinshrdlu", k=_random.choice((2, 3, 4, 5, 7)))) for _ in range(3_000)]


@lru_cache(maxsize=1)
def _texts() -> list[tuple[str, bytes]]:
    """A prompt and its ids: a word is a token, and frequent ones have small numbers, as in a real vocabulary."""
    made = []
    for _ in range(_NUM_TEXTS):
        ranks = [min(int(_random.paretovariate(0.7)), len(_WORDS)) - 1 for _ in range(NUM_PROMPT_WORDS)]
        made.append((
            " ".join(_WORDS[rank] for rank in ranks),
            b",".join(b"%d" % (rank * 7919 % _VOCABULARY) for rank in ranks),
        ))  # fmt: skip
    return made


def calls(num: int) -> Iterator[CallRecord]:
    """No two alike, each a trajectory of its own."""
    texts = _texts()
    for number in range(num):
        prompt, ids = texts[number % _NUM_TEXTS]
        yield _call(f"{number:08d} {prompt}", b"%d,%b" % (number % _VOCABULARY, ids))


def _call(prompt: str, ids: bytes) -> CallRecord:
    call_id = new_call_id()
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": prompt},
    ]
    body = {"messages": messages, "model": "gpt-4o", "max_tokens": NUM_COMPLETION_TOKENS, "temperature": 1.0}
    answer = " ".join(_random.choices(_WORDS, k=NUM_COMPLETION_TOKENS))
    return CallRecord(
        call_id=call_id,
        project="default",
        policy=POLICY,
        version=0,
        attribution=Attribution(new_id(), IdentifiedBy.NEW),
        request_id=call_id.hex,
        endpoint="/v1/chat/completions",
        is_streamed=False,
        requested_model="gpt-4o",
        answered_model="base",
        expected_model="base",
        messages=None,
        request={},
        raw_request=json.dumps(body).encode(),
        prompt_key="messages",
        request_sha256=call_id.hex * 2,
        started_at=datetime.now(UTC),
        status=ExchangeStatus.COMPLETED,
        http_status=200,
        is_delivered=True,
        client_name="OpenAI/Python 3.57.0",
        prompt_ids=TokenIds(ids),
        num_prompt_tokens=NUM_PROMPT_WORDS + 1,
        temperature=1.0,
        max_tokens=NUM_COMPLETION_TOKENS,
        first_token_seconds=0.05,
        total_seconds=0.5,
        choices=[_choice(answer, call_id.hex)],
    )


def _choice(answer: str, digest: str) -> ChoiceRecord:
    logprobs = [round(-_random.expovariate(1.5), 6) for _ in range(NUM_COMPLETION_TOKENS)]
    return ChoiceRecord(
        index=0,
        response={"role": "assistant", "content": answer},
        text=answer,
        completion_ids=_random.choices(range(_VOCABULARY), k=NUM_COMPLETION_TOKENS),
        sampling_logprobs=logprobs,
        finish_reason="stop",
        conversation_sha256=digest * 2,
    )


def raw_json(call: CallRecord) -> bytes:
    """What a gateway that logs requests and replies as JSON would write for it."""
    choice, prompt_ids = call.choices[0], list(call.prompt_ids or [])
    logprobs = [
        {"token": f"token_id:{id_}", "logprob": value}
        for id_, value in zip(choice.completion_ids or [], choice.sampling_logprobs or [], strict=True)
    ]
    reply = {
        "id": f"chatcmpl-{call.call_id.hex}",
        "object": "chat.completion",
        "model": call.answered_model,
        "prompt_token_ids": prompt_ids,
        "choices": [{
            "index": 0, "message": choice.response, "token_ids": choice.completion_ids,
            "logprobs": {"content": logprobs}, "finish_reason": choice.finish_reason,
        }],
        "usage": {"prompt_tokens": len(prompt_ids), "completion_tokens": len(choice.completion_ids or [])},
    }  # fmt: skip
    return b'{"request":%b,"response":%b}' % (call.raw_request or b"", json.dumps(reply).encode())
