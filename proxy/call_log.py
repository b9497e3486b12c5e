"""The record of one call on its way: accepted, then finished exactly once.

Invariant (I4): whatever ends the call, one finished record reaches the spool, and `end` returns when it is durable.
"""

import asyncio
import time
from dataclasses import replace

import structlog

from ledger.errors import SpoolError
from ledger.records import ChoiceRecord
from ledger.vocabulary import ExchangeStatus
from proxy.attribution import trajectory_names
from proxy.conversation.turn import Turn
from proxy.errors import CaptureRefusedError
from proxy.parts import Parts
from proxy.reply.capture import Capture
from proxy.settings import OnSpoolFailure

log = structlog.get_logger()


class CallLog:
    def __init__(self, parts: Parts, turn: Turn, capture: Capture, *, is_captured: bool) -> None:
        self.record = turn.record  # as accepted: without an answer
        self._turn = turn
        self.is_captured = is_captured
        self.capture = capture
        self._parts = parts
        self._began = time.perf_counter()
        self._first_token_seconds: float | None = None
        self._is_ended = False
        self._is_refused = False  # because it could not be recorded
        self._acceptance: asyncio.Handle | None = None  # not begun yet
        self._accepting: asyncio.Future[None] | None = None

    def accept_soon(self) -> None:
        """Writes the call down as soon as its task waits, which is when its request is on the way to vLLM."""
        self._acceptance = asyncio.get_running_loop().call_soon(self._accept)

    def _accept(self) -> None:
        self._acceptance = None
        if self.is_captured:
            self._accepting = self._parts.recorder.accept(self.record)
        else:
            self._parts.metrics.uncaptured.labels("asked").inc()

    async def accepted(self) -> None:
        """To be awaited before a byte of the reply leaves. Raises CaptureRefusedError if the call cannot be recorded
        and the operator wants no uncaptured calls.
        """
        self._accept_if_due()
        if self._accepting is None:
            return
        accepting, self._accepting = self._accepting, None
        try:
            await accepting
        except SpoolError as error:
            self._go_uncaptured(error)

    def _accept_if_due(self) -> None:
        if self._acceptance is not None:
            self._acceptance.cancel()
            self._accept()

    def note_first_token(self) -> float:
        """Returns the loop's time."""
        self._first_token_seconds = time.perf_counter() - self._began
        self._parts.metrics.first_token.observe(self._first_token_seconds)
        return asyncio.get_running_loop().time()

    @property
    def has_first_token(self) -> bool:
        return self._first_token_seconds is not None

    async def end(self, status: ExchangeStatus, http_status: int) -> None:
        """Durable when this returns. The first end counts; cancelling the wait changes nothing."""
        await self.accepted()
        if self._is_ended:
            return
        try:
            await asyncio.shield(self._finish(status, http_status, is_delivered=True))
        except SpoolError as error:
            self._go_uncaptured(error)
        await self._turn.told()  # a fast client's next turn may come to another process at once

    def end_at_hang_up(self, *, has_started: bool) -> "asyncio.Future[None] | None":
        """The client is gone, or the server shuts down. Everything produced and sent counts as delivered. Returns the
        way to the disk, if it begins here.
        """
        if self._is_ended:
            return None
        is_read = has_started and self.capture.is_complete
        status = ExchangeStatus.COMPLETED if is_read else ExchangeStatus.CANCELLED
        return self._finish(status, 200 if has_started else None, is_delivered=is_read)

    def headers(self) -> list[tuple[bytes, bytes]]:
        record = self.record
        version = [] if record.version is None else [(b"x-model-version", str(record.version).encode())]
        explored = [(b"x-explored", f"{record.temperature:g}".encode())] if record.is_explored else []
        return [
            (b"x-trajectory-id", trajectory_names(record).encode("ascii")),
            (b"x-request-id", record.request_id.encode("ascii")),
            *version,
            *explored,
            (b"x-captured", b"true" if self.is_captured and not self._is_refused else b"false"),
        ]

    def _go_uncaptured(self, error: Exception) -> None:
        if self._parts.settings.on_spool_failure is OnSpoolFailure.REFUSE:
            self._is_refused = True
            raise CaptureRefusedError(retry_after=5) from error
        log.warning("call_uncaptured", call_id=str(self.record.call_id), error=str(error))
        self._parts.metrics.uncaptured.labels("spool").inc()
        self.is_captured = False

    def _finish(
        self, status: ExchangeStatus, http_status: int | None, *, is_delivered: bool
    ) -> asyncio.Future[None]:
        self._is_ended = True
        self._accept_if_due()
        total_seconds = time.perf_counter() - self._began
        self._parts.metrics.calls_by_status[status].inc()
        self._parts.metrics.total.observe(total_seconds)
        self._check_version()
        choices = self._choices(status)
        if not self.is_captured:
            nothing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            nothing.set_result(None)
            return nothing
        record = replace(
            self.record,
            status=status,
            http_status=http_status,
            is_delivered=is_delivered,
            answered_model=self.capture.answered_model,
            error=self.capture.error,
            prompt_ids=self.capture.prompt_ids,
            num_prompt_tokens=self.capture.num_prompt_tokens,
            first_token_seconds=self._first_token_seconds,
            total_seconds=total_seconds,
            choices=choices,
        )
        return self._parts.recorder.finish(record)

    def _choices(self, status: ExchangeStatus) -> list[ChoiceRecord]:
        """Whatever is wrong with them, the call gets its record: a row without choices says more than none (I4)."""
        try:
            return self._turn.ended(status, self.capture.records())
        except Exception:
            log.exception("capture_broken", call_id=str(self.record.call_id))
            self._parts.metrics.dropped_events.labels("capture_broken").inc()
            return []

    def _check_version(self) -> None:
        """I2: the version was decided at dispatch; here it is held against what vLLM says."""
        answered, expected = self.capture.answered_model, self.record.expected_model
        if answered is not None and expected is not None and answered != expected:
            self._parts.metrics.version_mismatches.inc()
            log.error("version_mismatched", call_id=str(self.record.call_id), answered=answered)
