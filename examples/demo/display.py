"""What a person sees while the demo runs: phase, step, reward, tokens/s, what it waits for, and the versions.

On a terminal it is one live panel; elsewhere (a log file, CI) each change is a line.
"""

import sys
import time
from dataclasses import dataclass, field
from statistics import mean
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from examples.demo.statistics import Score


@dataclass(slots=True)
class VersionRow:
    """One line of the table of versions."""

    version: int
    exam: Score | None = None
    practised: list[float] = field(default_factory=list)  # rewards of all rounds of practice
    seconds: float = 0.0

    @property
    def practice(self) -> float | None:
        return mean(self.practised) if self.practised else None


@dataclass(slots=True)
class Display:
    """Holds what is shown; every `say` shows it again."""

    num_steps: int
    title: str = "Slipstream: a model learns from its traffic"
    console: Console = field(default_factory=Console)
    phase: str = "starting"
    detail: str = ""
    step: int = 0
    reward: float | None = None
    tokens_per_second: float | None = None
    rows: dict[int, VersionRow] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    live: Live | None = None

    def __enter__(self) -> Self:
        if sys.stdout.isatty():
            self.live = Live(
                get_renderable=self._panel, console=self.console, refresh_per_second=4, transient=True
            )
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()

    def say(self, phase: str, detail: str = "") -> None:
        """Name the phase and what it waits for or does. Off a terminal, a line is printed only when this changed."""
        is_news = (phase, detail) != (self.phase, self.detail)
        self.phase, self.detail = phase, detail
        if self.live is None and is_news:
            self.console.print(self._line(), soft_wrap=True, highlight=False)

    def row(self, version: int) -> VersionRow:
        return self.rows.setdefault(version, VersionRow(version))

    def table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for heading in ("version", "held-out reward", "95 % interval", "practice reward", "at"):
            table.add_column(heading, justify="right")
        for _, row in sorted(self.rows.items()):
            exam = row.exam
            table.add_row(
                str(row.version),
                f"{exam.mean:.3f}" if exam else "",
                f"{exam.low:.3f} to {exam.high:.3f}" if exam else "",
                f"{row.practice:.3f}" if row.practice is not None else "",
                f"{row.seconds:.0f} s",
            )
        return table

    def seconds(self) -> float:
        return time.monotonic() - self.started

    def _facts(self) -> str:
        facts = [f"{self.seconds():4.0f} s", f"step {self.step} of {self.num_steps}"]
        if self.reward is not None:
            facts.append(f"reward {self.reward:.3f}")
        if self.tokens_per_second is not None:
            facts.append(f"{self.tokens_per_second:.0f} tokens/s")
        return " · ".join(facts)

    def _line(self) -> str:
        return f"{self._facts()} · {self.phase}" + (f" · {self.detail}" if self.detail else "")

    def _panel(self) -> Panel:
        status = Text(f"{self.phase}\n", style="bold")
        status.append(self._facts(), style="cyan")
        if self.detail:
            status.append(f"\n{self.detail}", style="dim")
        return Panel(
            Group(status, Text(), self.table()),
            title=self.title,
            title_align="left",
        )
