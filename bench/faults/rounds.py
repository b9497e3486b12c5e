"""The rounds: load, a fault in the middle of it, and then the two counts, once everything had its chance to come."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.faults.audit import Audited, audit
from bench.faults.count import Count, count, rows_of
from bench.faults.disk import small_disk
from bench.faults.fate import Fate, Sent
from bench.faults.load import Load, Plan
from bench.faults.result import Result
from bench.faults.servers import Server, Stage, proxy, running

_SETTLE_SECONDS = 60.0
_POLL_SECONDS = 0.5
_AFTER_SECONDS = 1.5  # of load, when the fault is over
Fault = Callable[[], Awaitable[None]]


@dataclass
class Rounds:
    stage: Stage
    seed: int
    report: Callable[[str], None]

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    async def kill_proxy(self, round_: int) -> Result:
        """One of two; the other one takes its spool over, while it is started again."""
        victim = self.stage.proxies[round_ % 2]
        return await self._round("kill proxy", round_, lambda: _restarted(victim), killed=[victim.port])

    async def kill_postgres(self, round_: int) -> Result:
        return await self._round("kill postgres", round_, lambda: _restarted(self.stage.ledger.server))

    async def stop_postgres(self, seconds: float) -> Result:
        """The proxies serve on; their memory is watched."""
        server, proxies = self.stage.ledger.server, self.stage.proxies
        memory: list[int] = []

        async def stopped() -> None:
            await asyncio.to_thread(server.stop)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                memory.append(max(each.tree.memory_kib() for each in proxies))
                await asyncio.sleep(min(5.0, seconds / 4))
            await asyncio.to_thread(server.start)

        result = await self._round("stop postgres", 0, stopped)
        result.more["seconds"] = seconds
        result.more["memory_growth_mib"] = round((memory[-1] - memory[0]) / 1024, 1)
        return result

    async def fill_disk(self, directory: Path, *, is_serving: bool) -> Result:
        """A third proxy, alone, whose spool lies on a small disk. It refuses (429), or it serves and says so."""
        name, stage = "serve" if is_serving else "refuse", self.stage
        with small_disk(directory / name) as disk:
            spool = directory / name / "spool"
            server = proxy(
                f"proxy-{name}", directory, stage.upstream.port, stage.ledger.url, spool=spool, SLIPSTREAM_ON_SPOOL_FAILURE=name
            )  # fmt: skip
            with running(server):

                async def full() -> None:
                    await asyncio.to_thread(disk.fill, server)
                    await asyncio.sleep(8)
                    await asyncio.to_thread(disk.free, server)
                    await asyncio.sleep(3)

                self.report(f"the small disk is a {disk.name}")
                return await self._round(
                    f"full disk {name}",
                    0,
                    full,
                    ports=[server.port],
                    spool=spool,
                    prompt_bytes=60_000,
                    is_serving=is_serving,
                    is_disk_full=True,
                )

    async def _round(
        self,
        name: str,
        round_: int,
        fault: Fault,
        *,
        killed: Collection[int] = (),
        ports: list[int] | None = None,
        spool: Path | None = None,
        prompt_bytes: int = 2000,
        is_serving: bool = False,
        is_disk_full: bool = False,
    ) -> Result:
        self.report(f"{name}, round {round_ + 1}")
        prefix = f"{name.replace(' ', '-')}-{round_}"
        load = Load(Plan(prefix, ports or self.stage.ports, prompt_bytes=prompt_bytes, seed=self.seed))
        running_load = asyncio.create_task(load.run())
        await asyncio.sleep(self._chance.uniform(0.8, 2.0))
        await fault()
        await asyncio.sleep(_AFTER_SECONDS)
        load.stop()
        await running_load

        def counted() -> Count:
            rows = rows_of(self.stage.ledger.url, prefix)
            return count(load.sent, rows, killed, is_disk_full=is_disk_full, is_serving=is_serving)

        began = time.monotonic()
        found, audited = await asyncio.to_thread(
            _settled, counted, lambda: audit(self.stage.ledger.url, spool or self.stage.spool)
        )
        num_told = int(audited.told["uncaptured"])
        faults = list(faults_of(load.sent, num_told, killed, is_disk_full=is_disk_full))
        return Result(name, round_, found, audited, time.monotonic() - began, faults=faults)


async def _restarted(server: Server) -> None:
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


def _settled(counted: Callable[[], Count], audited: Callable[[], Audited]) -> tuple[Count, Audited]:
    """Until nothing is lost and nothing is open; or as it is after a minute."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while counted().lost and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    told = audited()
    while told.num_open and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        told = audited()
    return counted(), told


def faults_of(
    sent: Iterable[Sent], num_told: int, killed: Collection[int], *, is_disk_full: bool
) -> Iterator[str]:
    """What no count shows: calls that a living proxy did not serve though no disk was full, and calls that were served
    without a record of which the audit does not know (it knows of `num_told`).
    """
    calls = [call for call in sent if call.port not in killed]
    unserved = {Fate.UNANSWERED} if is_disk_full else {Fate.UNANSWERED, Fate.CUT, Fate.REFUSED}
    for fate in sorted(unserved):
        if found := [call for call in calls if call.fate is fate]:
            yield f"{len(found)} calls were {fate}: {found[0].request_id}, {found[0].detail}"
    uncaptured = sum(call.is_captured is False for call in calls)
    if is_disk_full and not (uncaptured or any(call.fate is Fate.REFUSED for call in calls)):
        yield "the disk was never full"
    if uncaptured > num_told:
        yield f"{uncaptured} calls were uncaptured, the audit knows of {num_told}"
