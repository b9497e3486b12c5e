"""Sends cases for a bounded time, several at once, and asks now and then whether the server still lives."""

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.fuzz.attempt import attempt
from bench.fuzz.case import Case, once
from bench.fuzz.finding import Finding
from bench.fuzz.mutations import case_of
from bench.fuzz.oracle import faults_of, replies_in

_AT_ONCE = 24
_SHOWN_BYTES = 400
_ALIVE = once("health", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")


@dataclass
class Bombardment:
    port: int
    seed: int
    report: Callable[[str], None]
    num_cases: int = 0
    captured: list[str] = field(default_factory=list)  # request ids of answers that claim to be recorded
    findings: list[Finding] = field(default_factory=list)

    async def run(self, seconds: float) -> None:
        deadline, numbers = time.monotonic() + seconds, itertools.count()

        async def work() -> None:
            while time.monotonic() < deadline:
                await self.one(next(numbers))

        await asyncio.gather(self._watch(deadline), *(work() for _ in range(_AT_ONCE)))

    async def one(self, number: int) -> None:
        case = case_of(self.seed, number)
        try:
            result = await attempt(self.port, case)
        except (OSError, TimeoutError) as error:
            self._note(case, f"no connection: {error!r}", number)
            return
        self.num_cases += 1
        for fault in faults_of(case, result.received, is_hanging=result.is_hanging):
            self._note(case, fault, number)
        self._remember(result.received)

    def _remember(self, received: bytes) -> None:
        try:
            replies = replies_in(received)
        except ValueError:
            return
        self.captured += [r.headers["x-request-id"] for r in replies if r.is_captured]

    def _note(self, case: Case, fault: str, number: int) -> None:
        again = f"python -m bench.fuzz --seed {self.seed} --case {number}"
        finding = Finding("bytes", case.kind, fault, again, repr(case.sent[:_SHOWN_BYTES]))
        self.findings.append(finding)
        self.report(f"{finding.kind}: {fault[:160]}  ({again})")

    async def _watch(self, deadline: float) -> None:
        """I8 in small: whatever others send, a right request is answered."""
        while time.monotonic() < deadline:
            begun = time.monotonic()
            try:
                result = await attempt(self.port, _ALIVE)
                is_alive = result.received.startswith(b"HTTP/1.1 200")
            except OSError:
                is_alive = False
            took = time.monotonic() - begun
            if not is_alive or took > 5.0:
                self._note(_ALIVE, f"/health did not answer within 5 s ({took:.1f} s)", -1)
            await asyncio.sleep(1)
