"""What became of a request: returned, never raised, unless the client was asked to raise.

CallFailedError carries the result that would have been returned.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipstream.errors import SlipstreamError

logger = logging.getLogger("slipstream.client")


@dataclass(frozen=True)
class Result:
    """`status` where `ok`: `recorded`, `unchanged`, `early`, … as the proxy says, or `queued`, `found`.

    Where not: `invalid` (nothing was sent), `refused` (the proxy said no), `unavailable` (it could not, after all
    retries), `unreachable` (nobody answered), `garbled` (the answer makes no sense), `dropped` (the queue is full).
    """

    ok: bool
    status: str
    error: str | None = None
    http_status: int | None = None
    id: str | None = None  # the post's own: the same again, by hand, is still the same post
    trajectory_id: str | None = None
    exchange_id: str | None = None
    is_counted: bool | None = None  # towards the reward; None: nobody said
    note: str | None = None  # why it does not
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)  # the whole answer

    def __bool__(self) -> bool:
        return self.ok


class CallFailedError(SlipstreamError):
    """What was asked did not happen."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = tuple(results)
        self.result = next(result for result in results if not result.ok)
        super().__init__(f"{self.result.status}: {self.result.error}")


class InvalidArgumentError(SlipstreamError):
    """An argument cannot be sent. Callers get it as a result with the status `invalid`."""


def failed_by(error: Exception) -> Result:
    """The result of what failed before anything was sent. Never raises."""
    if isinstance(error, InvalidArgumentError):
        return Result(ok=False, status="invalid", error=str(error))
    logger.debug("call_broke", exc_info=error)
    return Result(ok=False, status="invalid", error=f"{type(error).__name__}: {error}"[:500])


def told(results: Sequence[Result], *, raises: bool) -> None:
    """Logs what failed, each kind once. Raises CallFailedError where the client was asked to."""
    failed = [result for result in results if not result.ok]
    for status, error in dict.fromkeys((result.status, result.error) for result in failed):
        logger.warning("call_failed status=%s error=%s", status, error)
    if raises and failed:
        raise CallFailedError(results)
