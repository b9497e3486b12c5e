"""What is missing until the proxy can answer and record: said in sentences, one per fault."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from ledger.database import check_database, translated_errors
from ledger.errors import LedgerError
from ledger.pauses import paused_learners
from ledger.reading import plain
from proxy.management.bounded import within
from proxy.parts import Parts
from proxy.upstream.replicas import ReplicaState

T = TypeVar("T")
_WAIT_SECONDS = 3.0  # less than what health checks wait


class Fault(NamedTuple):
    """What anybody may know, and what an administrator is told."""

    plain: str
    told: str


async def what_is_missing(parts: Parts, engine: AsyncEngine) -> list[Fault]:
    found = []
    if problem := await _problem_of_ledger(engine):
        found.append(Fault("Postgres cannot be used.", problem))
    if not any(replica.state is ReplicaState.READY for replica in parts.replicas.all):
        problems = "; ".join(f"{r.url} {r.problem or r.state}" for r in parts.replicas.all)
        found.append(Fault("No vLLM server is ready.", f"No vLLM server is ready: {problems}."))
    found += [
        Fault(
            "A live version is not loaded yet.",
            f"{target.policy.line}@{target.policy.live_version} is live but no vLLM server could load it yet.",
        )
        for target in parts.live.targets()
        if target.version != target.policy.live_version
    ]
    return found


async def what_is_paused(engine: AsyncEngine) -> list[dict[str, Any]]:
    """Policies that begin no step for now; serving goes on, so it makes nothing unready. Empty, too, without Postgres."""

    def ask(connection: Connection) -> list[dict[str, Any]]:
        return [plain(asdict(learner)) for learner in paused_learners(connection)]

    try:
        return await within(_WAIT_SECONDS, _asked(engine, ask))
    except (TimeoutError, SQLAlchemyError, OSError):
        return []


async def _asked(engine: AsyncEngine, ask: Callable[[Connection], T]) -> T:
    async with engine.connect() as connection:
        return await connection.run_sync(ask)


async def _problem_of_ledger(engine: AsyncEngine) -> str | None:
    try:
        await within(_WAIT_SECONDS, _check(engine))
    except TimeoutError:
        return f"Postgres did not answer within {_WAIT_SECONDS:g} s."
    except (LedgerError, SQLAlchemyError, OSError) as error:
        return str(error) if isinstance(error, LedgerError) else "Postgres is too busy to answer."
    return None


async def _check(engine: AsyncEngine) -> None:
    with translated_errors():
        async with engine.connect() as connection:
            await connection.run_sync(check_database)
