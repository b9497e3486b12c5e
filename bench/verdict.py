"""What figures must reach, each in a sentence, and whether they do. What was not measured is not judged."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True)
class Target:
    figure: str
    sentence: str
    at_most: float | None = None
    at_least: float | None = None

    def is_met(self, value: float) -> bool:
        return (self.at_most is None or value <= self.at_most) and (
            self.at_least is None or value >= self.at_least
        )

    @property
    def bound(self) -> str:
        return f"≤ {self.at_most:g}" if self.at_most is not None else f"≥ {self.at_least:g}"


@dataclass(frozen=True)
class Verdict:
    target: Target
    value: float

    @property
    def is_met(self) -> bool:
        return self.target.is_met(self.value)


def judge(targets: Iterable[Target], figures: Mapping[str, float]) -> list[Verdict]:
    return [Verdict(target, figures[target.figure]) for target in targets if target.figure in figures]


def table_of(verdicts: Sequence[Verdict]) -> Table:
    table = Table(title="Targets", title_justify="left")
    for name in ("", "target", "wanted", "measured"):
        table.add_column(name, justify="right" if name in {"wanted", "measured"} else "left")
    for verdict in verdicts:
        mark = "[green]met[/]" if verdict.is_met else "[red]missed[/]"
        table.add_row(mark, verdict.target.sentence, verdict.target.bound, f"{verdict.value:,.4g}")
    return table
