"""What the proxy answered, as results. Nothing that it could send makes this raise."""

import json
from collections.abc import Sequence
from typing import Any

from slipstream.client.patience import Answer
from slipstream.client.request import Request
from slipstream.client.result import Result


def result_of(request: Request, seen: Answer | Exception) -> Result:
    if isinstance(seen, Exception):
        return Result(ok=False, status="unreachable", error=_said(seen), id=request.id)
    data = _json(seen.body)
    if not _is_success(seen) or not isinstance(data, dict):
        return _failure(request, seen, data)
    return _success(request, seen.status, data)


def results_of(requests: Sequence[Request], seen: Answer | Exception) -> list[Result]:
    """Of a list: one for each, in order. What ends all of them is told for each."""
    data = _json(seen.body) if isinstance(seen, Answer) and _is_success(seen) else None
    answers = data.get("data") if isinstance(data, dict) else None
    if not isinstance(answers, list) or len(answers) != len(requests):
        return [_failure(request, seen, None) for request in requests]
    return [_item(request, answer) for request, answer in zip(requests, answers, strict=True)]


def _item(request: Request, data: Any) -> Result:
    if isinstance(data, dict) and "error" not in data:
        return _success(request, 200, data)
    status = data.get("status") if isinstance(data, dict) else None
    answer = Answer(status if isinstance(status, int) else 200, {}, b"")
    return _failure(request, answer, data)


def _success(request: Request, http_status: int, data: dict[str, Any]) -> Result:
    texts = {name: _text(data.get(name)) for name in ("trajectory_id", "exchange_id", "note")}
    counts = data.get("counts")
    status = _text(data.get("status")) or "found"
    own_id = request.id or _text(data.get("id"))
    return Result(
        ok=True, status=status, http_status=http_status, id=own_id, data=data,
        is_counted=counts if isinstance(counts, bool) else None, **texts,
    )  # fmt: skip


def _failure(request: Request, seen: Answer | Exception, data: Any) -> Result:
    if isinstance(seen, Exception):
        return result_of(request, seen)
    status = "garbled" if _is_success(seen) else "unavailable" if _is_passing(seen) else "refused"
    message = _message(data if data is not None else _json(seen.body)) or f"HTTP {seen.status}"
    return Result(
        ok=False, status=status, error=message, http_status=seen.status, id=request.id,
        data=data if isinstance(data, dict) else {},
    )  # fmt: skip


def _is_success(answer: Answer) -> bool:
    return 200 <= answer.status < 300  # noqa: PLR2004 - HTTP


def _is_passing(answer: Answer) -> bool:
    return answer.status in {408, 425, 429} or answer.status >= 500  # noqa: PLR2004 - HTTP


def _message(data: Any) -> str | None:
    error = data.get("error") if isinstance(data, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return message[:2000] if isinstance(message, str) and message else None


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
