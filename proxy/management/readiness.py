"""What is missing until the proxy can answer and record: said in sentences, one per fault."""

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from ledger.database import check_database, translated_errors
from ledger.errors import LedgerError
from proxy.management.bounded import within
from proxy.parts import Parts
from proxy.upstream.replicas import ReplicaState

_WAIT_SECONDS = 3.0  # less than what health checks wait


async def what_is_missing(parts: Parts, engine: AsyncEngine) -> list[str]:
    missing: list[str] = []
    try:
        await within(_WAIT_SECONDS, _check(engine))
    except TimeoutError:
        missing.append(f"Postgres did not answer within {_WAIT_SECONDS:g} s.")
    except (LedgerError, SQLAlchemyError, OSError) as error:
        missing.append(str(error) if isinstance(error, LedgerError) else "Postgres is too busy to answer.")
    if not any(replica.state is ReplicaState.READY for replica in parts.replicas.all):
        problems = "; ".join(f"{r.url} {r.problem or r.state}" for r in parts.replicas.all)
        missing.append(f"No vLLM server is ready: {problems}.")
    missing += [
        f"{target.policy.name}@{target.policy.live_version} is live but no vLLM server could load it yet."
        for target in parts.live.targets()
        if target.version != target.policy.live_version
    ]
    return missing


async def _check(engine: AsyncEngine) -> None:
    with translated_errors():
        async with engine.connect() as connection:
            await connection.run_sync(check_database)
