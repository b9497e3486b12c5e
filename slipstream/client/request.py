"""One request to the proxy, ready to be sent, and sent again: whatever it writes carries an id of its own."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipstream.client.result import Result, failed_by

MAX_ITEMS = 500  # of one list: the proxy's own limit
_MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: bytes | None = None
    id: str | None = None
    item: bytes | None = None  # the same as an item of POST /v1/rewards, where it can be one
    num_items: int = 1  # a long list may take longer


def encoded(body: Mapping[str, Any]) -> bytes:
    """Raises ValueError or TypeError for what is no JSON: NaN, objects."""
    return json.dumps(body, allow_nan=False, ensure_ascii=True).encode()


def list_of(requests: Sequence[Request]) -> Request:
    """Many judgements as one request."""
    items = b",".join(request.item or b"null" for request in requests)
    return Request("POST", "/v1/rewards", b"[" + items + b"]", num_items=len(requests))


def batches(requests: Iterable[Request]) -> Iterator[list[Request]]:
    """In order, each small enough for one list."""
    batch, num_bytes = list[Request](), 0
    for request in requests:
        size = len(request.item or b"")
        if batch and (len(batch) >= MAX_ITEMS or num_bytes + size > _MAX_BYTES):
            yield batch
            batch, num_bytes = [], 0
        batch.append(request)
        num_bytes += size
    if batch:
        yield batch


def tried(build: Callable[[], Request]) -> Request | Result:
    """The request, or the result that says why there is none."""
    try:
        return build()
    except Exception as error:  # noqa: BLE001 - arguments may be anything; the caller gets a result
        return failed_by(error)
