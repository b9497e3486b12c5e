"""Who is compared: a name, a port, the processes that it consists of, and how to wait until its work is done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.gateway.children import Tree
from bench.gateway.outcome import Outcome


def nothing_left(_: Outcome, __: int) -> None:
    """What a gateway that records nothing has to do after the last reply."""


@dataclass(frozen=True)
class Contender:
    """`settle(outcome, num_tokens)` returns when all work for these calls is done; what is lost raises LostRowsError."""

    name: str
    port: int
    tree: Tree | None = None  # none: direct
    settle: Callable[[Outcome, int], None] = nothing_left
    ledger: Tree | None = None  # its database, if it has one

    @contextmanager
    def running(self) -> Iterator[None]:
        """Its turn: outside of it the contender is frozen."""
        for tree in self._trees():
            tree.thaw()
        try:
            yield
        finally:
            self.freeze()

    def freeze(self) -> None:
        for tree in self._trees():
            tree.freeze()

    def cpu_seconds(self) -> tuple[float, float]:
        """So far: its own, and its database's."""
        own, ledger = (tree.cpu_seconds() if tree else 0.0 for tree in (self.tree, self.ledger))
        return own, ledger

    def _trees(self) -> list[Tree]:
        return [tree for tree in (self.tree, self.ledger) if tree]
