"""`make bench-rewards`: post as fast as is answered, then at a pace; print, write bench/results/rewards.json.

Each beside its floor, measured in the same run. Exits 1 if a target is missed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from rich.console import Console

from bench import result_file
from bench.gateway.children import ROOT, ChildFailedError, environment, python
from bench.gateway.slipstream import Ledger, running_ledger, running_slipstream
from bench.gateway.upstream import BASE_MODEL
from bench.ledger.calls import calls
from bench.ledger.visible import running_mock
from bench.rewards import floor, report
from bench.rewards.load import Load, Outcome
from ledger.database import sync_engine
from ledger.policies import ensure_policy
from ledger.recording_session import RecordingSession
from ledger.request_body import derived

_RATE = 200.0
_BATCH = 200
_NUM_RECORDED = "SELECT count(*) FROM reward_events WHERE source = 'user'"


@dataclass(frozen=True)
class Sizes:
    seconds: float = 15.0
    num_replies: int = 20_000
    num_connections: int = 64


QUICK = Sizes(4.0, 4_000)


@dataclass
class Found:
    figures: dict[str, float] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def note(self, measure: str, who: str, latency_ms: list[float], seconds: float) -> None:
        took = sorted(latency_ms)
        row = {
            "per_second": len(took) / seconds,
            "p50_ms": took[len(took) // 2],
            "p99_ms": took[int(len(took) * 0.99)],
        }
        self.rows.append(
            {"measure": measure, "who": who, **{name: round(value, 3) for name, value in row.items()}}
        )
        self.figures |= {f"{measure}_{'' if who == 'ours' else who + '_'}{n}": v for n, v in row.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-rewards", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="seconds instead of a minute")
    options, console = parser.parse_args(), Console(width=None if sys.stdout.isatty() else 120)
    machine, sizes = result_file.machine(), QUICK if options.quick else Sizes()
    try:
        with tempfile.TemporaryDirectory(prefix="slipstream-bench-") as directory:
            found = measure(Path(directory), sizes)
    except ChildFailedError as error:
        console.print(str(error), style="red", markup=False)
        return 1
    result_file.write(machine, found.figures, found.rows, report.PARTIAL if options.quick else report.RESULTS)
    report.show(console, found.figures, found.rows)
    return 1 if any(not verdict.is_met for verdict in report.verdicts(found.figures)) else 0


def measure(directory: Path, sizes: Sizes) -> Found:
    found = Found()
    with running_ledger(directory) as ledger, running_mock(directory) as upstream:
        targets = record(ledger.url, sizes.num_replies)
        ids = [UUID(target) for target in targets]
        with running_slipstream(directory, upstream, ledger, name="rewards") as proxy:
            _drive(Load(proxy.port, sizes.num_connections, 2.0, first_number=10**8), targets)  # warms up
            with _counted(ledger, found):
                before = proxy.cpu_seconds()
                full = _drive(Load(proxy.port, sizes.num_connections, sizes.seconds), targets)
                after = proxy.cpu_seconds()
                paced = _drive(
                    Load(proxy.port, sizes.num_connections, sizes.seconds, _RATE, first_number=10**7), targets
                )
                found.figures["num_recorded"] = full.num_recorded + paced.num_recorded
                found.figures["num_refused"] = full.num_others + paced.num_others
        for name, then, now in zip(("cpu_us", "ledger_cpu_us"), before, after, strict=True):
            found.figures[name] = 1e6 * (now - then) / max(full.num_recorded, 1)
        found.note("saturated", "ours", full.latency_ms, full.seconds)
        inserted = floor.insert_for(ledger.url, ids, sizes.seconds / 3, 0.0)
        found.note("saturated", "floor", inserted, sizes.seconds / 3)
        found.note("paced", "ours", paced.latency_ms, paced.seconds)
        inserted = floor.insert_for(ledger.url, ids, sizes.seconds / 3, _RATE)
        found.note("paced", "floor", inserted, sizes.seconds / 3)
    found.figures["posts_per_second"] = found.figures["saturated_per_second"]
    found.figures["posts_over_floor"] = (
        found.figures["posts_per_second"] / found.figures["saturated_floor_per_second"]
    )
    return found


@contextmanager
def _counted(ledger: Ledger, found: Found) -> Iterator[None]:
    """Every post that was answered `recorded` is an event, and there are no others."""
    with psycopg.connect(ledger.url, autocommit=True) as connection:
        [before] = connection.execute(_NUM_RECORDED).fetchone() or (0,)
        yield
        [after] = connection.execute(_NUM_RECORDED).fetchone() or (0,)
    found.figures["num_lost"] = abs(found.figures["num_recorded"] - (after - before))


def record(url: str, num: int) -> list[str]:
    """So many replies as rows; their ids in an order that is not that of the rows."""
    engine = sync_engine(url)
    with engine.begin() as connection:
        ensure_policy(connection, name="default", base_model=BASE_MODEL)
    session, source, ids = RecordingSession(engine), calls(num), []
    while batch := list(islice(source, _BATCH)):
        session.record([derived(call) for call in batch])
        ids += [call.call_id.hex for call in batch]
    session.rest()
    engine.dispose()
    return sorted(ids, key=lambda id_: id_[-6:-4] + id_[20:24])


def _drive(load: Load, targets: list[str]) -> Outcome:
    command = python("-m", "bench.rewards.load", load.to_json())
    ended = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
        input="\n".join(targets),
        text=True,
    )
    return Outcome(**json.loads(ended.stdout))


if __name__ == "__main__":
    sys.exit(main())
