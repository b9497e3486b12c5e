"""One turn: a contender thaws, gets its load, finishes its work, and freezes. What it cost becomes a row."""

import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from bench.gateway.children import ROOT, environment, python
from bench.gateway.contender import Contender
from bench.gateway.figures import OURS, Row, percentile
from bench.gateway.outcome import Load, Outcome
from bench.gateway.plan import Plan
from bench.gateway.profile import profiled
from bench.gateway.stage import Stage
from slipstream.http import call


@dataclass
class Bench:
    plan: Plan
    stage: Stage
    report: Callable[[str], None]
    is_profiled: bool = False
    rows: list[Row] = field(default_factory=list)
    _num_sent: int = 0

    def named(self, *names: str) -> list[Contender]:
        """In the order of the names, those that take part."""
        by_name = {contender.name: contender for contender in self.stage.contenders}
        return [by_name[name] for name in names if name in by_name]

    def pace(self, *, event_seconds: float = 0.0, reply_seconds: float = 0.0) -> None:
        self.ask("pace", {"event_seconds": event_seconds, "reply_seconds": reply_seconds})

    def ask(self, what: str, body: Any = None) -> Any:
        return call(f"http://127.0.0.1:{self.stage.upstream}/bench/{what}", body)[1]

    def turn(self, measure: str, contender: Contender, round_: int, load: Load) -> Outcome:
        """Runs the load and notes the row: CPU of the whole tree, until the last row is written."""
        self.report(f"{measure}: {contender.name}, round {round_ + 1}")
        with contender.running(), self._watched(measure, contender):
            before = contender.cpu_seconds()
            outcome = self.drive(contender, load)
            contender.settle(outcome, load.num_tokens)
            spent = [now - then for now, then in zip(contender.cpu_seconds(), before, strict=True)]
        self.rows.append(Row(measure, contender.name, round_, values_of(outcome, *spent)))
        for fault in outcome.faults:
            self.report(f"  {contender.name} failed: {fault}")
        return outcome

    def warm(self, contenders: Iterable[Contender], load: Load) -> None:
        """Connections are open and code is loaded before anything is counted."""
        for contender in contenders:
            self.report(f"warming {contender.name}")
            with contender.running():
                contender.settle(self.drive(contender, load), load.num_tokens)

    @contextmanager
    def _watched(self, measure: str, contender: Contender) -> Iterator[None]:
        if self.is_profiled and contender.name == OURS and contender.tree:
            with profiled(min(contender.tree.pids()), measure, self.report):
                yield
        else:
            yield

    def drive(self, contender: Contender, load: Load) -> Outcome:
        aimed = replace(load, port=contender.port, first_number=self._num_sent)
        self._num_sent += load.num_calls
        command = python("-m", "bench.gateway.load", aimed.to_json())
        done = subprocess.run(command, cwd=ROOT, env=environment(), check=True, capture_output=True)
        return Outcome.from_json(done.stdout)


def values_of(outcome: Outcome, cpu_seconds: float, ledger_seconds: float) -> dict[str, float]:
    """Per request, or per streamed token where there are any."""
    num_units = outcome.num_events or outcome.num_answered or 1
    values = {
        "cpu_us": cpu_seconds / num_units * 1e6,
        "ledger_cpu_us": ledger_seconds / num_units * 1e6,
        "per_second": num_units / outcome.seconds,
        "num_answered": outcome.num_answered,
        "num_failed": outcome.num_failed,
    }
    times = outcome.first_token_ms or outcome.latency_ms
    if times:
        values |= {"median_ms": percentile(times, 50), "p99_ms": percentile(times, 99)}
    return values
