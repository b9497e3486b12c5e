"""What `slipstream up` shows: a live table of the children in a terminal, one plain line per event elsewhere."""

import json
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from slipstream.local.child import Child, State

COLOURS = {
    State.READY: "green",
    State.DONE: "green",
    State.STARTING: "yellow",
    State.BACKING_OFF: "red",
    State.FAILED: "red",
}
PLAIN_SECONDS = 5


def progress_of(line: str) -> tuple[float, str] | None:
    """The fraction and phase in a progress line such as {"progress": 0.4, "phase": "writing"}."""
    try:
        value = json.loads(line)
        return float(value["progress"]), str(value["phase"])
    except (ValueError, TypeError, KeyError):
        return None


def detail(child: Child) -> Table | Text:
    """For a starting child its progress bar or its last log line; for others nothing."""
    if child.state is not State.STARTING:
        return Text("")
    line = next(iter(child.last_lines(1)), child.missing)
    if progress := progress_of(line):
        bar = Table.grid(padding=(0, 2))
        bar.add_row(ProgressBar(1.0, progress[0], width=30), Text(progress[1], style="dim"))
        return bar
    return Text(line[:90], style="dim", overflow="ellipsis", no_wrap=True)


def told(child: Child) -> str:
    """For a plain line: `vllm (12 s)`, or `model (35 s, 70 %: copying the weights)`."""
    progress = progress_of(next(iter(child.last_lines(1)), ""))
    how_far = f", {progress[0]:.0%}: {progress[1]}" if progress else ""
    return f"{child.spec.name} ({child.seconds():.0f} s{how_far})"


def table_of(children: list[Child]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for child in children:
        seconds = f"{child.seconds():.0f} s" if child.state is State.STARTING else ""
        table.add_row(
            child.spec.name, Text(child.state, style=COLOURS.get(child.state, "dim")), seconds, detail(child)
        )
    return table


class Display:
    """Shows start-up until `finish`; afterwards only lines."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = (
            Live(console=console, auto_refresh=False, transient=False) if console.is_terminal else None
        )
        self._next_plain_at = time.monotonic() + PLAIN_SECONDS

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def finish(self) -> None:
        if self._live:
            self._live.stop()
            self._live = None

    def draw(self, children: list[Child]) -> None:
        if self._live:
            self._live.update(table_of(children), refresh=True)
        elif time.monotonic() >= self._next_plain_at:
            self._next_plain_at = time.monotonic() + PLAIN_SECONDS
            if starting := [told(child) for child in children if child.state is State.STARTING]:
                self.line(f"starting {', '.join(starting)}")

    def line(self, text: str) -> None:
        """One event. In a terminal the table tells it while it stands."""
        if not self._live:
            self.console.print(
                f"{time.strftime('%H:%M:%S')} {text}", markup=False, highlight=False, soft_wrap=True
            )
