"""Keeping what the proxy knows near Postgres: keys, policies, `live`. LISTEN tells at once (not behind PgBouncer),
asking each second makes it certain; all is read only where something changed.

Invariants: a revoked key is refused within a second, whatever else goes on (I8: a version that loads slowly delays
nothing else). Postgres away changes nothing. A new version is served only once the replicas were told to load it.
"""

import asyncio
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from ledger.changes import state_of
from ledger.database import (
    check_database,
    connect_options,
    database_address,
    is_pooled,
    translated_errors,
)
from ledger.errors import DatabaseUnreachableError, LedgerError, SchemaBehindError
from ledger.keys import KEYS_CHANNEL, KeyTable, read_keys
from ledger.policies import LIVE_CHANNEL, Policy, ensure_policy, read_policies
from proxy.access.keys import Keys
from proxy.live import LivePolicies, Target
from proxy.metrics import Metrics
from proxy.settings import ProxySettings
from proxy.upstream.replicas import Replicas

log = structlog.get_logger()
_RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Seen:
    """What Postgres said at one moment."""

    keys: KeyTable
    policies: list[Policy]


def look(connection: Connection, settings: ProxySettings) -> Seen:
    """Keys and policies. A project whose first key is new gets its policies here."""
    keys, policies = read_keys(connection), read_policies(connection)
    known = {(policy.project, policy.name) for policy in policies}
    for project in sorted({key.project for key in keys.live}):
        for name, base_model in settings.policy_bases.items():
            if (project, name) not in known:
                policies.append(ensure_policy(connection, name=name, base_model=base_model, project=project))
    return Seen(keys, policies)


async def first_look(engine: AsyncEngine, settings: ProxySettings) -> Seen:
    """With the default project's policies registered. Waits for Postgres, and for `slipstream migrate` to have run, but not for ever.

    Raises LedgerError.
    """
    deadline = asyncio.get_running_loop().time() + settings.database_wait_seconds
    while True:
        try:
            return await _first_look(engine, settings)
        except (DatabaseUnreachableError, SchemaBehindError) as error:
            if asyncio.get_running_loop().time() >= deadline:
                raise
            log.warning("database_awaited", error=str(error))
            await asyncio.sleep(_RETRY_SECONDS)


async def _first_look(engine: AsyncEngine, settings: ProxySettings) -> Seen:
    def ask(connection: Connection) -> Seen:
        check_database(connection)
        for name, base_model in settings.policy_bases.items():
            ensure_policy(connection, name=name, base_model=base_model)
        return look(connection, settings)

    with translated_errors():
        async with engine.begin() as connection:
            return await connection.run_sync(ask)


class Follower:
    """Its engine is its own: the hot path's questions never stand before a revocation."""

    def __init__(  # noqa: PLR0917 - what it keeps up to date
        self,
        engine: AsyncEngine,
        keys: Keys,
        live: LivePolicies,
        replicas: Replicas,
        metrics: Metrics,
        settings: ProxySettings,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._keys = keys
        self._live = live
        self._replicas = replicas
        self._metrics = metrics
        self._switching: dict[UUID, asyncio.Task[None]] = {}  # by policy
        self._policies: list[Policy] = []
        self.is_database_lost = False

    async def run(self) -> None:
        url = self._settings.database_url.get_secret_value()
        address = database_address(url).set(drivername="postgresql").render_as_string(hide_password=False)
        try:
            while True:
                try:
                    await self._follow(address)
                except (psycopg.Error, SQLAlchemyError, LedgerError, OSError) as error:
                    self._note_lost(error)
                    await asyncio.sleep(self._settings.watch_seconds)
        finally:
            for task in list(self._switching.values()):
                task.cancel()

    async def _follow(self, address: str) -> None:
        async with await psycopg.AsyncConnection.connect(
            address, autocommit=True, **connect_options()
        ) as connection:
            await self._listen(connection)
            seen: object = None
            while True:
                if (state := await state_of(connection)) != seen:
                    await self.refresh()
                    seen = state
                else:
                    self.take(self._policies)  # one that no replica could load is tried again
                async for _ in connection.notifies(timeout=self._settings.watch_seconds, stop_after=1):
                    pass

    async def _listen(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Behind PgBouncer another client's session would listen: there, asking each second is all there is."""
        if await is_pooled(connection):
            log.info("notices_polled", every_seconds=self._settings.watch_seconds)
            return
        for channel in (LIVE_CHANNEL, KEYS_CHANNEL):
            await connection.execute(f"LISTEN {channel}".encode())

    async def refresh(self) -> None:
        """Keys count at once; a new live version as soon as it is loaded."""
        async with self._engine.begin() as connection:
            seen = await connection.run_sync(look, self._settings)
        self.is_database_lost = False
        self._keys.replace(seen.keys)
        self.take(seen.policies)

    def take(self, policies: list[Policy]) -> None:
        """The base needs no loading; a policy on another base is another server's."""
        self._policies = policies
        for policy in policies:
            is_news = self._live.learn(policy) and policy.base_model == self._settings.base_model
            if is_news and policy.live_version == 0:
                self._serve(policy)
            elif is_news and policy.id not in self._switching:
                self._switching[policy.id] = asyncio.create_task(self._switch(policy))

    async def _switch(self, policy: Policy) -> None:
        """A version that no replica could load is tried again at the next reading; /ready says what they answered."""
        try:
            if await self._replicas.prepare(Target(policy, policy.live_version)):
                self._serve(policy)
        except Exception:
            log.exception("live_version_not_switched", policy=policy.line, version=policy.live_version)
        finally:
            self._switching.pop(policy.id)

    def _serve(self, policy: Policy) -> None:
        self._live.switch(policy)
        self._replicas.want(self._live.targets())
        self._metrics.live_version.labels(policy.line).set(policy.live_version)
        log.info("live_version_switched", policy=policy.line, version=policy.live_version)

    def _note_lost(self, error: Exception) -> None:
        if not self.is_database_lost:
            log.warning("database_lost", error=type(error).__name__)
        self.is_database_lost = True
