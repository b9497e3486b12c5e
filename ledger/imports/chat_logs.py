"""Lines of OpenAI-style chat logs as calls of an external model: teacher data, kept and judged, never trained.

Three shapes: `{"messages": […]}` of fine-tuning files, whose last message is the answer; a request beside its
response, under whatever names OpenAI's batch files and stored completions have; both with tools. Invariant: the
question is kept, or the line is bad; but for a batch's output and a completion alone, which have none.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ledger.imports.identity import CLIENT, content_id
from ledger.imports.lines import BadLineError
from ledger.imports.messages import answer_of, has_no_question, messages_of
from ledger.imports.moments import moment_of
from ledger.policies import Policy
from ledger.records import Attribution, CallRecord, ChoiceRecord
from ledger.vocabulary import ExchangeStatus, IdentifiedBy, Reason

ENDPOINT = "/v1/chat/completions"
_REQUESTS = ("request", "input", "body")
_RESPONSES = ("response", "output", "completion")
_OF_REQUEST = {
    "tools", "functions", "parallel_tool_calls", "tool_choice", "response_format", "metadata", "user",
    "safety_identifier", "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "n",
    "presence_penalty", "frequency_penalty", "service_tier", "reasoning_effort",
}  # fmt: skip


def call_of(line: Mapping[str, Any], policy: Policy, now: datetime) -> CallRecord:
    """Raises BadLineError. The same line gives the same digest, by which it is known again."""
    try:
        return _call(line, policy, now)
    except (AttributeError, TypeError, ValueError, OverflowError, OSError) as error:
        if isinstance(error, BadLineError):
            raise
        raise BadLineError(f"a member of an unexpected type: {error}") from error


def _call(line: Mapping[str, Any], policy: Policy, now: datetime) -> CallRecord:
    request, response = _request_of(line), _response_of(line)
    messages = _asked(request)
    choices = _choices(response) if response is not None else [_answer(messages)]
    if response is None and messages:
        messages = messages[:-1]
    if not messages and not has_no_question(line):
        raise BadLineError("it holds no question: 'messages', 'prompt', 'input' or 'request' should")
    digest = hashlib.sha256(json.dumps(line, sort_keys=True).encode()).digest()
    moment = moment_of(line, response or {}, now) or now
    call_id = content_id(digest, int(moment.timestamp() * 1000))
    model = str((response or {}).get("model") or request.pop("model", None) or "")
    usage = (response or {}).get("usage") or {}
    return CallRecord(
        call_id=call_id,
        project=policy.project,
        policy=policy.name,
        version=None,
        attribution=Attribution(
            trajectory_id=call_id,
            identified_by=IdentifiedBy.NEW,
            metadata=_metadata(line, request),
            end_user=next(
                (v for k in ("safety_identifier", "user") if isinstance(v := request.get(k), str)), None
            ),
        ),
        request_id=str((response or {}).get("id") or line.get("custom_id") or call_id.hex),
        endpoint=ENDPOINT,
        is_streamed=False,
        requested_model=str(request.pop("model", None) or model),
        messages=messages,
        request=request,
        started_at=moment,
        status=ExchangeStatus.COMPLETED,
        num_choices=len(choices),
        answered_model=model or None,
        client_name=CLIENT,
        http_status=200,
        is_delivered=True,
        request_sha256=digest.hex(),
        num_prompt_tokens=_count(usage.get("prompt_tokens")),
        temperature=request.get("temperature"),
        top_p=request.get("top_p"),
        max_tokens=request.get("max_completion_tokens") or request.get("max_tokens"),
        seed=request.get("seed"),
        choices=choices,
        untrainable_reason=Reason.EXTERNAL_MODEL,
    )


def dated(line: Mapping[str, Any], now: datetime) -> datetime | None:
    """When it was answered, as far as the line tells."""
    try:
        return moment_of(line, _response_of(line) or {}, now)
    except (AttributeError, TypeError, ValueError, OverflowError, OSError):
        return None


def _request_of(line: Mapping[str, Any]) -> dict[str, Any]:
    """Without messages and prompt where the line is one of a batch's output."""
    for name in _REQUESTS:
        found = line.get(name)
        if isinstance(found, dict):
            return dict(found.get("body", found))
        if isinstance(found, list) or (found and isinstance(found, str) and not line.get("messages")):
            return {**_own_fields(line), "messages": found}
    named = ("messages", "prompt", "model")
    return _own_fields(line) | {name: line[name] for name in named if name in line}


def _own_fields(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in _OF_REQUEST if line.get(name) is not None}


def _asked(request: dict[str, Any]) -> list[Any] | None:
    """Takes it out of the request."""
    messages, prompt = request.pop("messages", None), request.pop("prompt", None)
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        prompt = prompt[0]
    return messages_of(messages) or messages_of(prompt)


def _metadata(line: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Of the request, and by which id a batch's input file knows it."""
    metadata = request.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    if isinstance(line.get("custom_id"), str):
        known = {"custom_id": line["custom_id"], **known}
    return known or None


def _response_of(line: Mapping[str, Any]) -> dict[str, Any] | None:
    """None for a line that holds its answer among its messages."""
    if "choices" in line:
        return dict(line)
    for name in _RESPONSES:
        found = line.get(name)
        if isinstance(found, dict):
            return _body(found)
        if isinstance(found, str):
            return {"choices": [{"message": {"role": "assistant", "content": found}}]}
    if line.get("error"):
        raise BadLineError("the request failed: there is no answer to learn from")
    if "messages" not in line:
        raise BadLineError("neither 'messages' nor a request with its response")
    return None


def _body(response: dict[str, Any]) -> dict[str, Any]:
    """Of a batch's output: `{"status_code": 200, "body": {…}}`."""
    status = response.get("status_code", 200)
    if status != 200:  # noqa: PLR2004 - HTTP
        raise BadLineError(f"the request failed with status {status}: there is no answer to learn from")
    body = response.get("body", response)
    if isinstance(body, dict) and "role" in body:
        return {"choices": [{"message": body}]}
    if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
        raise BadLineError("the response has no 'choices'")
    return body


def _choices(response: Mapping[str, Any]) -> list[ChoiceRecord]:
    usage = response.get("usage") or {}
    found = response.get("choices")
    if not isinstance(found, list) or not found:
        raise BadLineError("the response has no 'choices'")
    number = _count(usage.get("completion_tokens")) if len(found) == 1 else None
    return [_choice(choice, index, number) for index, choice in enumerate(found)]


def _choice(choice: Any, index: int, num_tokens: int | None) -> ChoiceRecord:
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise BadLineError(f"choice {index} has no message")
    return ChoiceRecord(
        index=index,
        response={"message": answer_of(message, index)},
        text=_text(message),
        finish_reason=choice.get("finish_reason"),
        num_completion_tokens=num_tokens,
    )


def _answer(messages: Any) -> ChoiceRecord:
    """The last message, of a fine-tuning file."""
    if not messages or messages[-1].get("role") != "assistant":
        raise BadLineError("'messages' does not end with an answer of the assistant")
    if len(messages) == 1:
        raise BadLineError("'messages' holds nothing that was answered")
    return ChoiceRecord(index=0, response={"message": messages[-1]}, text=_text(messages[-1]))


def _text(message: Mapping[str, Any]) -> str | None:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
