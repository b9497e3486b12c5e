"""The proxy makes partitions, too: it may be all that runs for months, and DEFAULT is no place for a year of rows.

Invariant: a call never waits for it, and what cannot be made now (a table in use, no right to create one, Postgres away)
is tried again. Rows are written meanwhile, into DEFAULT.
"""

import asyncio

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from ledger.partitions import ensure_partitions

EVERY_SECONDS = 1800.0

log = structlog.get_logger()


async def keep_partitions(engine: AsyncEngine, every_seconds: float = EVERY_SECONDS) -> None:
    """Until it is cancelled: a look at the start and then every so many seconds."""
    while True:
        try:
            async with engine.connect() as connection:
                made = await connection.run_sync(ensure_partitions)
        except (SQLAlchemyError, OSError) as error:
            cause = (
                getattr(error, "orig", None) or error
            )  # InsufficientPrivilege says more than ProgrammingError
            log.warning("partitions_not_made", error=type(cause).__name__)
        else:
            if made:
                log.info("partitions_made", names=made)
        await asyncio.sleep(every_seconds)
