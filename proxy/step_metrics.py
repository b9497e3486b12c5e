"""What /metrics shows of training: read from Postgres now and then, beside the calls (docs/decisions/0028).

Invariant: a scrape asks nobody, a call waits for nothing of this, and a step is counted once however often it is read.
All proxies show the same numbers: they are the ledger's.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import TypeVar
from uuid import UUID

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from ledger.figures import FIGURES, PHASES, Figure, Part, Unit
from ledger.step_metrics import BEGINNING, NO_ID, Row, finished_steps, pauses, running_steps, seen_workers
from ledger.vocabulary import DEFAULT_PROJECT, StepState

log = structlog.get_logger()
EVERY_SECONDS = 15.0
AT_ONCE = 100  # few: rows are decoded on the event loop, which calls share
OVERLAP = timedelta(minutes=1)  # a step whose transaction ended later than its clock says
STATEMENT_SECONDS = 5
_TIMEOUT = text(f"SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s'")
_MIB = 1 << 20
T = TypeVar("T")
Values = Mapping[tuple[str, ...], float]  # by labels


@dataclass(slots=True)
class Seen:
    """All finished steps, folded in the order of their end. Example: version 7 published, then a step that was skipped:
    `newest` has the loss of version 7 beside the reward of the skipped one.
    """

    until: datetime = BEGINNING
    ids: dict[UUID, datetime] = field(default_factory=dict)  # those that may be read again
    newest: dict[str, dict[str, float]] = field(default_factory=dict)  # policy -> figure -> value
    newest_at: dict[str, datetime] = field(default_factory=dict)  # by policy
    ended_at: dict[tuple[str, ...], float] = field(default_factory=dict)  # by policy and state
    steps: Counter[tuple[str, ...]] = field(default_factory=Counter)  # by policy, kind, state
    trained: Counter[tuple[str, ...]] = field(default_factory=Counter)  # tokens, by policy
    dropped: Counter[tuple[str, ...]] = field(default_factory=Counter)  # tokens, by policy and reason
    seconds: Counter[tuple[str, ...]] = field(default_factory=Counter)  # by policy and phase

    def add(self, row: Row) -> None:
        """Nothing for a step that is counted already."""
        if row["step_id"] in self.ids:
            return
        policy, state, ended_at = line_of(row), row["state"], row["finished_at"]
        self.ids[row["step_id"]] = ended_at
        self.until = max(self.until, ended_at)
        self.steps[policy, row["kind"], state] += 1
        self.ended_at[policy, state] = max(self.ended_at.get((policy, state), 0.0), ended_at.timestamp())
        if ended_at >= self.newest_at.setdefault(policy, ended_at):
            self.newest_at[policy] = ended_at
            self.newest.setdefault(policy, {}).update(_figures(row))
        self._add_sums(policy, row)

    def forget(self) -> None:
        """Of the ids, those that no look reads again."""
        since = self.until - OVERLAP
        self.ids = {id_: ended_at for id_, ended_at in self.ids.items() if ended_at >= since}

    def _add_sums(self, policy: str, row: Row) -> None:
        if row["state"] == StepState.PUBLISHED:
            self.trained[policy,] += row["tokens_used"] or 0
        for reason, num_tokens in row["drops"].items():
            self.dropped[policy, reason] += num_tokens
        for phase in PHASES:
            self.seconds[policy, phase] += row[f"seconds_{phase}"] or 0
        self.seconds[policy, "waiting"] += row["seconds_waiting"] or 0


@dataclass(frozen=True, slots=True)
class Shown:
    """What a scrape shows: of one moment."""

    seen: Seen = field(default_factory=Seen)
    running: list[Row] = field(default_factory=list)
    workers: list[Row] = field(default_factory=list)
    pauses: list[Row] = field(default_factory=list)
    read_at: float = field(default_factory=monotonic)


class StepMetrics(Collector):
    """Before its first look is over, every family is empty."""

    def __init__(self) -> None:
        self._seen = Seen()
        self._shown = Shown()

    async def run(self, engine: AsyncEngine, every_seconds: float = EVERY_SECONDS) -> None:
        """Until it is cancelled. Where Postgres is away, what was read stays, and ages grow."""
        is_lost = False
        while True:
            try:
                await self.look(engine)
                is_lost = False
            except (SQLAlchemyError, OSError) as error:
                if not is_lost:
                    log.warning("step_metrics_unread", error=type(error).__name__)
                is_lost = True
            await asyncio.sleep(every_seconds)

    async def look(self, engine: AsyncEngine) -> None:
        """Read what is new, however much that is, then show it."""
        since, after = self._seen.until - OVERLAP, NO_ID
        while True:
            question = partial(finished_steps, since=since, after=after, limit=AT_ONCE)
            rows = await _asked(engine, question)
            for row in rows:
                self._seen.add(row)
            if len(rows) < AT_ONCE:
                break
            since, after = rows[-1]["finished_at"], rows[-1]["step_id"]
        self._seen.forget()
        running, workers = await _asked(engine, running_steps), await _asked(engine, seen_workers)
        self._shown = Shown(self._seen, running, workers, await _asked(engine, pauses))

    def collect(self) -> Iterator[Metric]:
        shown, seen = self._shown, self._shown.seen
        passed = monotonic() - shown.read_at
        for figure in FIGURES:
            if figure.part is not Part.SECONDS:
                yield _figure(figure, seen.newest)
        name, words = (
            "slipstream_step_finished_timestamp_seconds",
            "When the newest step ended, by its state.",
        )
        yield _gauge(name, words, ("policy", "state"), seen.ended_at)
        yield _counter("slipstream_steps", "Finished steps.", ("policy", "kind", "state"), seen.steps)
        yield _counter("slipstream_trained_tokens", "Tokens of published steps.", ("policy",), seen.trained)
        words = "Sampled tokens that steps read and did not use."
        yield _counter("slipstream_dropped_tokens", words, ("policy", "reason"), seen.dropped)
        words = "Seconds that steps took, by phase, and waited."
        yield _counter("slipstream_phase_seconds", words, ("policy", "phase"), seen.seconds)
        ages: Values = {(line_of(row), row["state"]): row["seconds"] + passed for row in shown.running}
        words = "Since a step that is not over last changed its state."
        yield _gauge("slipstream_step_running_seconds", words, ("policy", "state"), ages)
        ages = {(row["policy"], row["base_model"]): row["seconds"] + passed for row in shown.workers}
        paused: Values = {(line_of(row),): float(row["is_paused"]) for row in shown.pauses}
        yield _gauge("slipstream_paused", "Whether a policy is paused: 1 or 0.", ("policy",), paused)
        words = "Since a worker was last seen alive."
        yield _gauge("slipstream_worker_seen_seconds", words, ("policy", "base_model"), ages)


def line_of(row: Row) -> str:
    return str(row["policy"] if row["project"] == DEFAULT_PROJECT else f"{row['project']}@{row['policy']}")


async def _asked(engine: AsyncEngine, question: Callable[[Connection], T]) -> T:
    """Its answer, in a transaction of its own whose statements are bounded."""
    async with engine.begin() as connection:
        await connection.execute(_TIMEOUT)
        return await connection.run_sync(question)


def _figures(row: Row) -> dict[str, float]:
    return {figure.name: row[figure.name] for figure in FIGURES if row[figure.name] is not None}


def _figure(figure: Figure, newest: Mapping[str, Mapping[str, float]]) -> GaugeMetricFamily:
    """In Prometheus' units: bytes."""
    is_memory = figure.unit is Unit.MIB
    name = figure.name.removesuffix("_mib") + "_bytes" if is_memory else figure.name
    factor = _MIB if is_memory else 1
    values: Values = {
        (policy,): found[figure.name] * factor for policy, found in newest.items() if figure.name in found
    }
    return _gauge(f"slipstream_step_{name}", figure.meaning, ("policy",), values)


def _gauge(name: str, words: str, labels: tuple[str, ...], values: Values) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _counter(name: str, words: str, labels: tuple[str, ...], values: Values) -> CounterMetricFamily:
    family = CounterMetricFamily(name, words, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
