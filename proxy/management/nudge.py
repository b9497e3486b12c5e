"""Telling the trainer that a group is complete. Only a hint (I6): if it is lost, the next tick finds the group."""

import asyncio
from typing import Any

import structlog

from ledger.vocabulary import TICK_TASK, TRAINING_QUEUE
from proxy.metrics import Metrics

log = structlog.get_logger()
_TIMEOUT_SECONDS = 2
_PAUSE_SECONDS = 0.2


class Nudge:
    def __init__(self, redis_url: str | None, metrics: Metrics) -> None:
        self._redis_url = redis_url
        self._metrics = metrics
        self._celery: Any = None
        self._running: set[asyncio.Task[None]] = set()
        self._is_wanted = False

    def send(self) -> None:
        """Returns at once. Of many within a moment the first goes, and one more for all the others."""
        if not self._redis_url:
            return
        self._is_wanted = True
        if not self._running:
            task = asyncio.create_task(self._send_wanted())
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _send_wanted(self) -> None:
        while self._is_wanted:
            self._is_wanted = False
            await self._send()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def sent(self) -> bool:
        """Whether the broker took it, for whoever asked for it."""
        return bool(self._redis_url) and await self._send()

    async def _send(self) -> bool:
        try:
            await asyncio.to_thread(self._publish)
        except Exception as error:  # noqa: BLE001 - whatever the broker's client raises, the reward is durable
            self._metrics.nudges.labels("failed").inc()
            log.warning("nudge_failed", error=type(error).__name__)
            return False
        self._metrics.nudges.labels("sent").inc()
        return True

    def _publish(self) -> None:
        if self._celery is None:
            self._celery = _client(str(self._redis_url))
        self._celery.send_task(TICK_TASK, queue=TRAINING_QUEUE, retry=False, ignore_result=True)

    async def drain(self) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=_TIMEOUT_SECONDS)
        if self._celery is not None:
            self._celery.close()


def _client(redis_url: str) -> Any:
    from celery import Celery

    client = Celery("slipstream-proxy", broker=redis_url)
    client.conf.broker_transport_options = {
        "socket_timeout": _TIMEOUT_SECONDS,
        "socket_connect_timeout": _TIMEOUT_SECONDS,
    }
    client.conf.task_ignore_result = True
    return client
