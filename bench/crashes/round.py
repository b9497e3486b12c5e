"""One round: a ledger, adapters and a crew of its own, faults in the middle of steps, and the account afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from bench.crashes.account import Account, Digests, Expected, account, digests_of
from bench.crashes.crew import Crew, Worker, died, wait_for
from bench.crashes.stage import Stage
from bench.crashes.traffic import add_batch
from ledger.database import sync_engine
from trainer.settings import TrainerSettings

LEASE_SECONDS = 3.0
SETTINGS: dict[str, Any] = {
    "step_groups": 2,
    "step_min_tokens": 0,
    "min_seconds_between_versions": 0.0,
    "row_tokens": 12,  # several rows, so that there is a middle of the batch
    "trust_log_ratio": 50.0,
    "lease_seconds": LEASE_SECONDS,
    "tick_seconds": 0.25,
    "silence_seconds": 3600.0,  # only the broker makes ticks, unless a round says otherwise
    "retry_seconds": 0.2,
    "replica_timeout_seconds": 10.0,
    "niceness": 0,
    "threads": 1,
    "device": "cpu",
}


@dataclass
class Round:
    stage: Stage
    settings: TrainerSettings
    engine: Engine
    crew: Crew
    num_kills: int = 0
    seconds: list[float] = field(default_factory=list)  # from each fault until the version was published

    def add(self, number: int, **changes: Any) -> None:
        add_batch(self.engine, self.settings.base_model, number, **changes)

    def state_of(self, version: int) -> str | None:
        """Of the newest step that makes it."""
        query = "SELECT state FROM training_steps WHERE version = :version ORDER BY created_at DESC LIMIT 1"
        try:
            with self.engine.connect() as connection:
                state: str | None = connection.execute(text(query), {"version": version}).scalar()
        except OperationalError:  # Postgres is away: that may be the fault
            return None
        return state

    def await_death(self, worker: Worker) -> None:
        """By the fault that was armed."""
        wait_for(f"the death of {worker.name}", lambda: died(worker))
        self.num_kills += 1

    def await_published(self, version: int) -> None:
        """Remembers how long it took."""
        took = wait_for(f"version {version}", lambda: self.state_of(version) == "published")
        self.seconds.append(took)

    def await_ended(self, state: str, number: int = 1) -> None:
        query = text("SELECT count(*) FROM training_steps WHERE state = :state")

        def is_there() -> bool:
            with self.engine.connect() as connection:
                return bool(connection.execute(query, {"state": state}).scalar() == number)

        self.seconds.append(wait_for(f"a step that is {state}", is_there))

    def digests(self) -> Digests:
        return digests_of(self.settings.adapters, self.settings.checkpoints_root)

    def account(self, reference: Digests, expected: Expected) -> Account:
        return account(self.engine, self.digests(), reference, self.stage.replicas, expected)


@contextmanager
def new_round(stage: Stage, name: str, **changes: Any) -> Iterator[Round]:
    """`changes`: of the settings. Whatever the round starts is gone at its end."""
    directory = stage.directory / name
    directory.mkdir()
    for replica in stage.replicas:
        replica.forget()
    settings = TrainerSettings(
        database_url=stage.new_database(name),
        redis_url=stage.redis_url,
        upstream_urls=tuple(replica.url for replica in stage.replicas),
        base_model=str(stage.model),
        adapters=directory / "adapters",
        **(SETTINGS | {"health_file": directory / "health"} | changes),
    )
    engine = sync_engine(settings.database_url)
    try:
        with Crew(stage, directory, settings.model_dump()) as crew:
            yield Round(stage, settings, engine, crew)
    finally:
        engine.dispose()
        stage.flush()
        stage.drop_database(name)
