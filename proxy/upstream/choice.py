"""Which replica answers a call. Pure.

Calls with the same affinity share a prefix, so they go where its blocks are cached: each affinity ranks the replicas in an
order of its own (rendezvous hashing), and the first that is not too busy is taken. Invariants: the same ranks and loads
give the same choice; a replica that leaves moves only its own calls; no choice has more than the leeway allows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Leeway:
    """How much busier than the least loaded replica the one that has the prefix may be."""

    slack: int = 4
    factor: float = 1.5

    def most_allowed(self, least: int) -> int:
        """The most calls a replica may have to get one more: 4 beside an idle one, 7 beside 3, 30 beside 20."""
        return max(least + self.slack, int(least * self.factor))


def chosen(affinity: bytes, loads: Mapping[str, int], leeway: Leeway) -> str:
    """The name of one of `loads` (name -> calls in flight), of which there is at least one.

    Without an affinity the least loaded, the first of equals.
    """
    least_loaded = min(loads, key=loads.__getitem__)
    if not affinity or len(loads) == 1:
        return least_loaded
    most = leeway.most_allowed(loads[least_loaded])
    return max((name for name in loads if loads[name] <= most), key=lambda name: _rank(affinity, name))


def _rank(affinity: bytes, name: str) -> bytes:
    return blake2b(name.encode() + b"\0" + affinity, digest_size=8).digest()
