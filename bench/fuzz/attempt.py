"""Sends a case over a raw socket and takes what comes back. A server that neither answers nor closes is hanging."""

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass

from bench.fuzz.case import Case, Ending
from bench.fuzz.oracle import replies_in

LIMIT_SECONDS = 12.0  # the proxy runs with 3 s for a head and 3 s for a body
_QUIET_SECONDS = 0.15  # after a whole reply: no more is coming
_RESET = struct.pack("ii", 1, 0)


@dataclass
class Attempt:
    received: bytes = b""
    is_hanging: bool = False


async def attempt(port: int, case: Case) -> Attempt:
    """Raises OSError if nobody accepts the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    result = Attempt()
    try:
        num_wanted = max(1, len(case.request_ids))
        reading = asyncio.create_task(_read(reader, num_wanted, result))
        with suppress(OSError):  # the server may close while we still send
            await _send(writer, case)
        await _end(writer, case.ending, reading)
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    return result


async def _send(writer: asyncio.StreamWriter, case: Case) -> None:
    for piece, pause in case.pieces:
        writer.write(piece)
        async with asyncio.timeout(LIMIT_SECONDS):
            await writer.drain()
        if pause:
            await asyncio.sleep(pause)
    if case.ending is Ending.HALF_CLOSE:
        writer.write_eof()


async def _end(writer: asyncio.StreamWriter, ending: Ending, reading: "asyncio.Task[None]") -> None:
    if ending in {Ending.WAIT, Ending.HALF_CLOSE}:
        await reading
        return
    if ending is Ending.LINGER:
        await asyncio.sleep(0.02)
    if ending is Ending.RESET:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
    await asyncio.wait({reading}, timeout=1)


async def _read(reader: asyncio.StreamReader, num_wanted: int, result: Attempt) -> None:
    """Ends when the server closes, or is quiet behind all replies that it owes."""
    while True:
        is_answered = _is_answered(result.received, num_wanted)
        try:
            async with asyncio.timeout(_QUIET_SECONDS if is_answered else LIMIT_SECONDS):
                data = await reader.read(1 << 16)
        except TimeoutError:
            result.is_hanging = not is_answered
            return
        except OSError:
            return
        if not data:
            return
        result.received += data


def _is_answered(received: bytes, num_wanted: int) -> bool:
    try:
        replies = replies_in(received)
    except ValueError:
        return True  # the oracle tells
    return len(replies) >= num_wanted and all(reply.is_whole for reply in replies)
