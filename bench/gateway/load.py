"""The load generator: a process of its own, on asyncio's protocols, so that it costs little beside what it measures.

`python -m bench.gateway.load '{"port": …}'` prints an Outcome. Invariant: every call ends in it, answered or failed.
"""

import asyncio
import json
import sys
import time
from typing import cast

import uvloop

from bench.gateway.answers import fault_of_stream, fault_of_whole, has_token
from bench.gateway.outcome import Load, Outcome
from bench.gateway.requests import template
from bench.gateway.wire import LAST_CHUNK, body_length, head_end, is_chunked

_PARSE_EVERY = 16  # of so many answers one is parsed and its text compared


class Run:
    """What all callers share: how many calls are left, and what came of the others."""

    def __init__(self, load: Load) -> None:
        self.load, self.outcome = load, Outcome()
        self._template = template(load.prompt_bytes, load.num_tokens, is_streamed=load.is_streamed)
        self._num_sent = 0
        self.fault_of = fault_of_stream if load.is_streamed else fault_of_whole

    def next_request(self) -> bytes | None:
        if self._num_sent >= self.load.num_calls:
            return None
        self._num_sent += 1
        return self._template.numbered(self.load.first_number + self._num_sent)


class Caller(asyncio.Protocol):
    """One connection. `idle` holds a future that is done when the call that runs has ended."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._pieces: list[bytes] = []
        self._head = b""
        self._ended: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by class

    def send(self, request: bytes) -> asyncio.Future[None]:
        assert self._transport
        self._pieces, self._head, self._has_token, self._tail = [], b"", False, b""
        self._num_missing = -1
        self._ended = asyncio.get_running_loop().create_future()
        self._sent_at = time.perf_counter()
        self._transport.write(request)
        return self._ended

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        if not self._head:
            whole = b"".join(self._pieces)
            if not (end := head_end(whole)):
                return
            self._head, data = whole[:end], whole[end:]
            self._pieces = [data]
            self._is_chunked = is_chunked(self._head)
            self._num_missing = body_length(self._head)
        if self._run.load.is_streamed and not self._has_token and has_token(data):
            self._has_token = True
            self._first_token_at = time.perf_counter()
        if self._is_chunked:
            self._tail = (self._tail + data)[-len(LAST_CHUNK) :]
            if self._tail == LAST_CHUNK:
                self._end()
        else:
            self._num_missing -= len(data)
            if self._num_missing <= 0:
                self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ended and not self._ended.done():
            self._run.outcome.note_fault(f"the connection was closed within a call ({exc!r})")
            self._ended.set_result(None)

    def _end(self) -> None:
        outcome, load = self._run.outcome, self._run.load
        now = time.perf_counter()
        body = b"".join(self._pieces)
        is_parsed = outcome.num_answered % _PARSE_EVERY == 0
        if fault := self._run.fault_of(self._head, body, load.num_tokens, is_parsed=is_parsed):
            outcome.note_fault(fault)
        else:
            outcome.num_answered += 1
            outcome.latency_ms.append((now - self._sent_at) * 1000)
            if load.is_streamed:
                outcome.num_events += load.num_tokens
                outcome.first_token_ms.append((self._first_token_at - self._sent_at) * 1000)
        assert self._ended
        self._ended.set_result(None)

    def close(self) -> None:
        if self._transport:
            self._transport.close()


async def call_in_turn(run: Run, start_after: float) -> None:
    """One connection's calls; a connection that was closed while idle is opened again."""
    await asyncio.sleep(start_after)
    loop, caller = asyncio.get_running_loop(), Caller(run)
    while request := run.next_request():
        try:
            if not caller.is_open:
                _, caller = await loop.create_connection(lambda: Caller(run), "127.0.0.1", run.load.port)
            await caller.send(request)
        except OSError as error:
            run.outcome.note_fault(f"no connection ({error})")
    caller.close()


async def drive(load: Load) -> Outcome:
    run = Run(load)
    started_at = time.perf_counter()
    delays = (load.ramp_seconds * k / load.num_connections for k in range(load.num_connections))
    try:
        async with asyncio.timeout(load.limit_seconds):
            await asyncio.gather(*(call_in_turn(run, delay) for delay in delays))
    except TimeoutError:
        run.outcome.note_fault(f"not done after {load.limit_seconds:g} s")
    run.outcome.seconds = time.perf_counter() - started_at
    missing = load.num_calls - run.outcome.num_answered - run.outcome.num_failed
    run.outcome.num_failed += max(0, missing)
    return run.outcome


if __name__ == "__main__":
    print(uvloop.run(drive(Load(**json.loads(sys.argv[1])))).to_json())
