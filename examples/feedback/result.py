"""What a run leaves behind for a program to read: `results/NAME-SEED.json`, and what several runs say together."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from examples.demo.statistics import Score, half_width, score_of_means


@dataclass(frozen=True, slots=True)
class Examined:
    """A version's held-out score, and how many calls had been served when it was made."""

    version: int
    num_calls: int
    score: Score


@dataclass(frozen=True, slots=True)
class Result:
    """One run. `name` says which feedback it had: `running` the true one, `shuffled` the control."""

    name: str
    seed: int
    num_calls: int
    num_thumbs: int
    num_up: int
    exams: tuple[Examined, ...]
    seconds: float
    compared_with: dict[str, int] = field(default_factory=dict)  # used samples by baseline kind

    @property
    def before(self) -> Score:
        return self.exams[0].score

    @property
    def after(self) -> Score:
        return self.exams[-1].score

    @property
    def has_improved(self) -> bool:
        """Better, with 95 % intervals that do not touch."""
        return self.before.high < self.after.low

    @property
    def gain_per_1000(self) -> float:
        """Reward gained per 1,000 calls. Example: 0.3 -> 0.9 in 800 calls: 0.6 / 0.8 = 0.75."""
        return (self.after.mean - self.before.mean) / self.num_calls * 1000

    @property
    def early_gain_per_1000(self) -> float:
        """The same over the first half of the calls, where nothing is nearly perfect yet."""
        half = [exam for exam in self.exams if exam.num_calls <= self.num_calls / 2][-1]
        return (half.score.mean - self.before.mean) / self.num_calls * 2000

    def gain(self) -> tuple[float, float, float]:
        """Low, mean, high of what each sentence gained: paired, so narrower than the two scores look."""
        gains = [b - a for a, b in zip(self.before.sentence_means, self.after.sentence_means, strict=True)]
        half, middle = half_width(gains), mean(gains)
        return middle - half, middle, middle + half

    def write(self, directory: Path) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.name}-{self.seed}.json"
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        return path


def read(path: Path) -> Result:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    exams = tuple(
        Examined(one["version"], one["num_calls"], Score(**_with_tuple(one["score"])))
        for one in found["exams"]
    )
    return Result(**(found | {"exams": exams}))


def read_all(directory: Path) -> list[Result]:
    """In the order of their names and seeds."""
    return sorted((read(path) for path in directory.glob("*-*.json")), key=lambda one: (one.name, one.seed))


def together(scores: Sequence[Score]) -> Score:
    """Several runs' exams as one. The runs share the held-out sentences, so these stay what the interval is over."""
    means = [mean(of_sentence) for of_sentence in zip(*(one.sentence_means for one in scores), strict=True)]
    return score_of_means(means, sum(one.num_replies for one in scores))


def _with_tuple(score: dict[str, Any]) -> dict[str, Any]:
    return score | {"sentence_means": tuple(score["sentence_means"])}
