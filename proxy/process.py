"""Everything that lives as long as the process; taken down in reverse order, records first made durable."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

import structlog
from fastapi import FastAPI

from ledger.database import async_engine, sync_engine
from ledger.spool.spool import Spool
from proxy.access.concurrency import Concurrency
from proxy.access.keys import Keys, require_key
from proxy.conversation.conversations import Conversations
from proxy.conversation.valkey import valkey_at
from proxy.external.dispatch import External
from proxy.follow import Follower, first_look
from proxy.live import LivePolicies
from proxy.management.nudge import Nudge
from proxy.management.reward_writer import NUM_LANES, RewardWriter
from proxy.management.routes import create_management
from proxy.metrics import Metrics
from proxy.open_bodies import OpenBodies
from proxy.partitions import keep_partitions
from proxy.parts import Parts
from proxy.recorder import Recorder
from proxy.settings import ProxySettings
from proxy.upstream.choice import Leeway
from proxy.upstream.replicas import Replicas
from proxy.upstream.vllm import VllmClient
from proxy.writer import Writer

log = structlog.get_logger()
_RESTART_SECONDS = 1.0
_GARBAGE_THRESHOLD = 50_000  # objects


@asynccontextmanager
async def running_parts(settings: ProxySettings) -> AsyncIterator[tuple[Parts, FastAPI]]:
    """Everything that lives as long as the process; taken down in reverse order, records first made durable."""
    url = settings.database_url.get_secret_value()
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        engine = async_engine(url)
        stack.push_async_callback(engine.dispose)
        seen = await first_look(engine, settings)
        require_key(seen.keys, settings)
        vllm = await stack.enter_async_context(VllmClient(settings))
        external = External(settings, metrics)
        stack.push_async_callback(external.close)
        leeway = Leeway(settings.affinity_slack, settings.affinity_factor)
        replicas = Replicas(settings.replica_urls, vllm, settings.adapters, metrics, leeway)
        keys, live = Keys(seen.keys), LivePolicies(settings.policy, settings.base_model)
        for policy in seen.policies:
            live.learn(policy)
            if policy.base_model == settings.base_model:  # another base is another server's
                live.switch(policy)
                metrics.live_version.labels(policy.line).set(policy.live_version)
        replicas.want(live.targets())
        spool = Spool.open(settings.spool)
        stack.callback(spool.close)
        writer_engine = sync_engine(url, pool_size=1)
        stack.callback(writer_engine.dispose)
        writer = Writer(spool, settings.spool, writer_engine, metrics, settings.adopt_seconds)
        stack.push_async_callback(asyncio.to_thread, writer.stop, settings.shutdown_seconds)
        writer.start()
        recorder = Recorder(spool, metrics, writer.wake)
        stack.push_async_callback(recorder.drain)
        redis_url = settings.redis_url.get_secret_value() if settings.redis_url else None
        nudge = Nudge(redis_url, metrics)
        stack.push_async_callback(nudge.drain)
        follower_engine = async_engine(url, pool_size=1)
        stack.push_async_callback(follower_engine.dispose)
        follower = Follower(follower_engine, keys, live, replicas, metrics, settings)
        rewards_engine = sync_engine(url, pool_size=NUM_LANES)
        stack.callback(rewards_engine.dispose)
        rewards = RewardWriter(rewards_engine, metrics, settings.max_waiting_rewards)
        stack.push_async_callback(rewards.close)
        valkey = valkey_at(redis_url, settings.valkey_wait_seconds, metrics.valkey_failures.inc)
        works: list[Callable[[], Awaitable[None]]] = [
            partial(replicas.watch, settings.watch_seconds),
            follower.run,
            rewards.run,
            partial(keep_partitions, engine),
            partial(metrics.steps.run, engine),
        ]
        for work in [*works, valkey.run] if valkey else works:
            stack.push_async_callback(_cancelled, asyncio.create_task(_kept_running(work)))
        open_bodies = OpenBodies(settings.max_open_bytes)
        concurrency = Concurrency(settings.max_concurrent_per_key)
        conversations = Conversations(settings, valkey, metrics)
        parts = Parts(
            settings,
            keys,
            concurrency,
            live,
            replicas,
            external,
            vllm,
            recorder,
            conversations,
            metrics,
            open_bodies,
        )
        yield parts, create_management(parts, engine, rewards, nudge)


def rest_garbage_collection() -> None:
    """What was loaded at the start is never garbage, and calls leave no cycles: looking through both again and again
    took a tenth of a call.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD, 20, 50)


async def _kept_running(work: Callable[[], Awaitable[None]]) -> None:
    """A fault in background work is logged, and the work begins again."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("background_work_broken")
            await asyncio.sleep(_RESTART_SECONDS)


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task
