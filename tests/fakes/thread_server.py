"""An aiohttp application on a loopback port, in a thread of its own: what the fakes are made of."""

import asyncio
import threading

from aiohttp import web


class ThreadServer:
    """`start` serves the same port again after `stop`."""

    def __init__(self, name: str, app: web.Application, port: int, *, aborts: bool) -> None:
        self.port = port  # 0: any; the real one once it serves
        self._name = name
        self._app = app
        self._aborts = aborts  # connections break at the end, as with a kill
        self._thread: threading.Thread
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name=self._name, daemon=True)
        self._thread.start()
        assert ready.wait(10)

    def stop(self) -> None:
        if not self.is_running:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(10)

    def _run(self, ready: threading.Event) -> None:
        asyncio.run(self._serve(ready))

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(self._app, handler_cancellation=True, shutdown_timeout=0.01, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        ready.set()
        await self._stopping.wait()
        for connection in list(runner.server.connections) if self._aborts else ():  # type: ignore[union-attr]
            if connection.transport is not None:
                connection.transport.abort()
        await runner.cleanup()
