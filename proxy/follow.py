"""Keeping the proxy's idea of `live` near Postgres': LISTEN tells at once, reading each second makes it certain.

Invariant (I8): Postgres away changes nothing; a new version is served only once the replicas were told to load it.
"""

import asyncio

import psycopg
import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from ledger.database import check_database, connect_options, database_address, translated_errors
from ledger.errors import DatabaseUnreachableError, LedgerError
from ledger.policies import LIVE_CHANNEL, Policy, ensure_policy, read_policies
from ledger.vocabulary import DEFAULT_PROJECT
from proxy.live import LivePolicies, Target
from proxy.metrics import Metrics
from proxy.settings import ProxySettings
from proxy.upstream.replicas import Replicas

log = structlog.get_logger()
_RETRY_SECONDS = 0.5


async def first_policy(engine: AsyncEngine, settings: ProxySettings) -> Policy:
    """The default policy, registered if need be. Waits for Postgres, but not for ever. Raises LedgerError."""
    deadline = asyncio.get_running_loop().time() + settings.database_wait_seconds
    while True:
        try:
            return await _ensure(engine, settings)
        except DatabaseUnreachableError as error:
            if asyncio.get_running_loop().time() >= deadline:
                raise
            log.warning("database_awaited", error=str(error))
            await asyncio.sleep(_RETRY_SECONDS)


async def _ensure(engine: AsyncEngine, settings: ProxySettings) -> Policy:
    with translated_errors():
        async with engine.begin() as connection:
            await connection.run_sync(check_database)
            return await connection.run_sync(
                lambda sync: ensure_policy(sync, name=settings.policy, base_model=settings.base_model)
            )


class Follower:
    def __init__(
        self, engine: AsyncEngine, live: LivePolicies, replicas: Replicas, metrics: Metrics, base_model: str
    ) -> None:
        self._engine = engine
        self._base_model = base_model
        self._live = live
        self._replicas = replicas
        self._metrics = metrics
        self.is_database_lost = False

    async def run(self, settings: ProxySettings) -> None:
        address = database_address(settings.database_url.get_secret_value()).set(drivername="postgresql")
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    address.render_as_string(hide_password=False), autocommit=True, **connect_options()
                ) as connection:
                    await connection.execute(f"LISTEN {LIVE_CHANNEL}".encode())
                    await self._listen(connection, settings.watch_seconds)
            except (psycopg.Error, SQLAlchemyError, LedgerError, OSError) as error:
                self._note_lost(error)
                await asyncio.sleep(settings.watch_seconds)

    async def _listen(self, connection: psycopg.AsyncConnection, seconds: float) -> None:
        while True:
            await self.refresh()
            async for _ in connection.notifies(timeout=seconds, stop_after=1):
                pass

    async def refresh(self) -> None:
        """Reads each policy, and switches to a new live version as soon as it is loaded."""
        async with self._engine.connect() as connection:
            policies = await connection.run_sync(read_policies)
        self.is_database_lost = False
        for policy in policies:
            is_news = policy.project == DEFAULT_PROJECT and self._live.learn(policy)
            if is_news and policy.base_model == self._base_model:  # another base is another server's
                await self._switch(policy)

    async def _switch(self, policy: Policy) -> None:
        if not await self._replicas.prepare(Target(policy, policy.live_version)):
            return  # tried again at the next reading; /ready says what the replicas answered
        self._live.switch(policy)
        self._replicas.want(self._live.targets())
        self._metrics.live_version.labels(policy.name).set(policy.live_version)
        log.info("live_version_switched", policy=policy.name, version=policy.live_version)

    def _note_lost(self, error: Exception) -> None:
        if not self.is_database_lost:
            log.warning("database_lost", error=type(error).__name__)
        self.is_database_lost = True
