"""One attempt of the fuzzer: what is sent, with which pauses, and how it ends. Made from its number alone."""

from dataclasses import dataclass
from enum import StrEnum


class Ending(StrEnum):
    WAIT = "wait"  # for the answer, or until the server closes
    HALF_CLOSE = "half-close"  # we send no more, and wait
    CLOSE = "close"  # we leave at once
    RESET = "reset"  # we leave with a reset
    LINGER = "linger"  # we read a little of the answer, then leave


@dataclass(frozen=True)
class Case:
    kind: str
    pieces: tuple[tuple[bytes, float], ...]  # bytes, and the pause after them in seconds
    ending: Ending = Ending.WAIT
    request_ids: tuple[str, ...] = ()  # of requests that must be answered 200, in this order

    @property
    def sent(self) -> bytes:
        return b"".join(piece for piece, _ in self.pieces)

    @property
    def is_patient(self) -> bool:
        return self.ending in {Ending.WAIT, Ending.HALF_CLOSE}


def once(kind: str, data: bytes, ending: Ending = Ending.WAIT, request_ids: tuple[str, ...] = ()) -> Case:
    return Case(kind, ((data, 0.0),), ending, request_ids)
