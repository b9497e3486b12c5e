"""What became of one call, as its client saw it, and how many rows it must have for that. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class Fate(StrEnum):
    ANSWERED = "answered"  # whole, with the text that the mock sent
    CUT = "cut"  # the head came, the end did not
    CANCELLED = "cancelled"  # by us, after the head
    ABANDONED = "abandoned"  # by us, before any byte of the answer
    REFUSED = "refused"  # an error status
    UNANSWERED = "unanswered"  # no connection, or it broke before the head


@dataclass(frozen=True, slots=True)
class Sent:
    """Example: worker 3's 7th call of round "pg-2" is request "pg-2.3.7"."""

    request_id: str
    worker: int
    number: int
    port: int
    fate: Fate
    is_captured: bool | None = None  # what `x-captured` said; None: no head came
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Bounds:
    fewest: int
    most: int = 1


def rows_due(sent: Sent, killed: frozenset[int], *, is_disk_full: bool) -> Bounds:
    """How many rows a call of one choice must have. `killed`: ports of proxies that were killed meanwhile."""
    if sent.is_captured is False:  # nothing was promised; what was accepted may be there as interrupted
        return Bounds(0)
    if sent.fate in {Fate.ANSWERED, Fate.CUT, Fate.CANCELLED} and sent.is_captured:
        return Bounds(1)
    if sent.fate is Fate.ABANDONED and sent.port not in killed and not is_disk_full:
        return Bounds(1)
    return Bounds(0)
