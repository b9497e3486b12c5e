"""The process that holds LiteLLM: started by the first call that needs it, once, and started again if it died.

A process, because importing LiteLLM holds Python's lock for tenths of a second at a time, keeps 200 MB, and prints and
logs what it likes: nothing of that may reach calls that are answered by vLLM. It ends with us, however we end: it reads
its standard input, which closes then.
"""

import asyncio
import json
import os
import secrets
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from proxy.errors import UpstreamUnavailableError
from proxy.external.environment import child_environment
from proxy.settings import ProxySettings

log = structlog.get_logger()
_ROOT = Path(__file__).parents[2]
_START_SECONDS = 120.0
_STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Started:
    process: "subprocess.Popen[bytes]"
    url: str
    token: str  # whoever does not know it gets no answer


class LitellmProcess:
    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._starting: asyncio.Task[Started] | None = None

    async def started(self) -> Started:
        """All calls that come meanwhile wait for one start. Raises UpstreamUnavailableError."""
        if self._starting is None or _has_ended(self._starting):
            self._starting = asyncio.create_task(asyncio.to_thread(self._start))
        try:
            return await asyncio.shield(self._starting)
        except (OSError, ValueError) as error:
            log.exception("external_start_failed")
            raise UpstreamUnavailableError(
                "The part of this proxy that speaks to external providers did not start; its log says why.",
                retry_after=10,
            ) from error

    async def forget(self, started: Started) -> None:
        """It accepts no connections: the next call starts another."""
        await asyncio.to_thread(_stop, started.process)

    async def stop(self) -> None:
        if self._starting is None:
            return
        with suppress(Exception):
            process = (await self._starting).process
            await asyncio.to_thread(_stop, process)

    def _start(self) -> Started:
        """Raises OSError or ValueError; then no process is left behind."""
        token = secrets.token_urlsafe(32)
        process = subprocess.Popen(
            [sys.executable, "-m", "proxy.external.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # LiteLLM's own words may hold keys
            env=child_environment(os.environ, _ROOT),
            start_new_session=True,  # Ctrl-C is ours: running streams end first
        )
        try:
            port = self._introduced(process, token)
        except BaseException:
            _stop(process)
            raise
        log.info("external_started", pid=process.pid)
        return Started(process, f"http://127.0.0.1:{port}", token)

    def _introduced(self, process: "subprocess.Popen[bytes]", token: str) -> int:
        """Tells it what it must know; returns its port once it has imported LiteLLM. Raises OSError or ValueError."""
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(_START_SECONDS, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps({"token": token, **self._told()}).encode() + b"\n")
            process.stdin.flush()
            said: dict[str, Any] = json.loads(process.stdout.readline() or b"{}")
        finally:
            timer.cancel()
            process.stdout.close()
        if "port" not in said:
            raise ValueError(said.get("error") or f"it did not start within {_START_SECONDS:g} s")
        return int(said["port"])

    def _told(self) -> dict[str, object]:
        return {
            "base_urls": self._settings.provider_urls,
            "idle_seconds": self._settings.upstream_idle_seconds,
            "connect_seconds": self._settings.upstream_connect_seconds,
        }


def _has_ended(starting: "asyncio.Task[Started]") -> bool:
    if not starting.done():
        return False
    if starting.cancelled() or starting.exception() is not None:
        return True
    process = starting.result().process
    if process.poll() is None:
        return False
    _close(process)
    return True


def _stop(process: "subprocess.Popen[bytes]") -> None:
    _close(process)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _close(process: "subprocess.Popen[bytes]") -> None:
    """Its standard input, by which it knows that we are there."""
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
