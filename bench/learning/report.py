"""What the runs say together: a table, bench/results/learning.json, and what falls short of the issue's targets."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import result_file
from bench.learning.rungs import RUNGS
from bench.verdict import Target, Verdict, judge, table_of
from examples.feedback.result import Result, together

RESULTS = Path("bench/results/learning.json")
PARTIAL = Path("bench/results/learning-partial.json")  # of a run that left something out
TARGETS = (
    Target("running_share_improved", "of the seeds improve with thumbs alone (intervals apart)", at_least=1),
    Target("running_together_apart", "between the intervals before and after, all seeds", at_least=0.0),
    Target("shuffled_share_improved", "of the seeds improve with shuffled thumbs", at_most=0),
    Target("num_other_baselines", "samples compared with something else than their rung says", at_most=0),
)


def figures_of(results: Sequence[Result]) -> dict[str, float]:
    """Of each rung, over its seeds; `num_other_baselines` over all runs."""
    figures: dict[str, float] = {}
    for name in dict.fromkeys(one.name for one in results):
        runs = [one for one in results if one.name == name]
        before, after = together([one.before for one in runs]), together([one.after for one in runs])
        found = {
            "num_seeds": len(runs),
            "num_calls": mean(one.num_calls for one in runs),
            "num_thumbs": mean(one.num_thumbs for one in runs),
            "share_judged": mean(one.num_thumbs / one.num_calls for one in runs),
            "before": before.mean,
            "after": after.mean,
            "together_apart": after.low - before.high,
            "share_improved": mean(one.has_improved for one in runs),
            "gain_per_1000": mean(one.gain_per_1000 for one in runs),
            "early_gain_per_1000": mean(one.early_gain_per_1000 for one in runs),
            "seconds": mean(one.seconds for one in runs),
        }
        figures |= {f"{name}_{figure}": value for figure, value in found.items()}
    others = sum(num_other_baselines(one) for one in results)
    return figures | {"num_other_baselines": others}


def num_other_baselines(one: Result) -> int:
    """Used samples whose reward was compared with something else than the rung is about."""
    return sum(count for kind, count in one.compared_with.items() if kind != RUNGS[one.name].baseline)


def verdicts(figures: dict[str, float]) -> list[Verdict]:
    return judge(TARGETS, figures)


def row(one: Result) -> dict[str, Any]:
    low, gain, high = one.gain()
    return {
        "rung": one.name,
        "asks": RUNGS[one.name].asks,
        "seed": one.seed,
        "num_calls": one.num_calls,
        "num_thumbs": one.num_thumbs,
        "num_up": one.num_up,
        "before": [one.before.low, one.before.mean, one.before.high],
        "after": [one.after.low, one.after.mean, one.after.high],
        "gain": [low, gain, high],
        "has_improved": one.has_improved,
        "compared_with": one.compared_with,
        "gain_per_1000": one.gain_per_1000,
        "early_gain_per_1000": one.early_gain_per_1000,
        "exams": [[exam.num_calls, exam.score.mean] for exam in one.exams],
        "seconds": one.seconds,
    }


def write(found: dict[str, Any], figures: dict[str, float], results: Sequence[Result], path: Path) -> None:
    result_file.write(found, figures, [row(one) for one in results], path)


def show(console: Console, figures: dict[str, float], results: Sequence[Result]) -> None:
    table = Table(title="Held-out reward, 95 % intervals over 16 sentences", title_justify="left")
    for heading in (
        "rung",
        "seed",
        "calls",
        "thumbs",
        "before",
        "after",
        "gained (paired)",
        "per 1,000 calls",
    ):
        table.add_column(heading, justify="left" if heading == "rung" else "right")
    for one in results:
        low, gain, high = one.gain()
        table.add_row(
            one.name, str(one.seed), str(one.num_calls), f"{one.num_thumbs} ({one.num_up} up)",
            f"{one.before.mean:.3f} ({one.before.low:.3f} to {one.before.high:.3f})",
            f"{one.after.mean:.3f} ({one.after.low:.3f} to {one.after.high:.3f})",
            f"{gain:.3f} ({low:.3f} to {high:.3f})", f"{one.gain_per_1000:.2f}",
        )  # fmt: skip
    console.print(table)
    console.print(_rungs(figures, list(dict.fromkeys(one.name for one in results))))
    console.print(table_of(verdicts(figures)))


def _rungs(figures: dict[str, float], names: Sequence[str]) -> Table:
    table = Table(title="Reward gained per 1,000 calls, 30 % of them judged", title_justify="left")
    for heading in ("rung", "asked", "seeds", "before", "after", "per 1,000 calls", "in the first half"):
        table.add_column(heading, justify="left" if heading in {"rung", "asked"} else "right")
    for name in names:
        wanted = ("before", "after", "gain_per_1000", "early_gain_per_1000")
        values = [figures[f"{name}_{figure}"] for figure in wanted]
        seeds = f"{figures[f'{name}_num_seeds']:.0f}"
        table.add_row(name, RUNGS[name].asks, seeds, *(f"{value:.3f}" for value in values))
    return table
