"""Watches a contender's memory while it works: the most it held, and how many streams were open at once."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import Self

from bench.gateway.children import Tree

_SAMPLE_SECONDS = 0.5


@dataclass
class Peak:
    tree: Tree
    count_open: Callable[[], int]
    memory_kib: int = 0
    num_open: int = 0

    def __enter__(self) -> Self:
        self._stopping = Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stopping.wait(_SAMPLE_SECONDS):
            with suppress(OSError):  # the mock is busy; the next sample comes
                self.num_open = max(self.num_open, self.count_open())
            self.memory_kib = max(self.memory_kib, self.tree.memory_kib())

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
