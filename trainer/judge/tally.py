"""Votes counted: the mean, its spread, and the words that go with it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any
from uuid import UUID

from trainer.judge.vote import Vote


@dataclass(frozen=True, slots=True)
class Tally:
    """Of one trajectory. Example: votes (0.2, 0.4, 0.9) -> mean 0.5, spread 0.294…"""

    votes: tuple[float, ...]
    mean: float
    spread: float
    comment: str


def tallied(votes: Sequence[Vote]) -> dict[UUID, Tally]:
    """By trajectory. The explanation is that of the vote nearest to the mean (the first of equals)."""
    return {trajectory_id: _tally(trajectory_id, votes) for trajectory_id in votes[0].given}


def _tally(trajectory_id: UUID, votes: Sequence[Vote]) -> Tally:
    given = [vote.given[trajectory_id] for vote in votes]
    scores = tuple(one.score for one in given)
    mean = fmean(scores)
    nearest = min(given, key=lambda one: abs(one.score - mean))
    spread = pstdev(scores)
    told = f" [mean of {len(scores)} votes: {', '.join(f'{s:g}' for s in scores)}]" if len(scores) > 1 else ""
    return Tally(scores, mean, spread, nearest.explanation + told)


def scores_of(
    tallies: dict[UUID, Tally], seed: str, unscored: Sequence[UUID], scale: Sequence[UUID]
) -> dict[str, Any]:
    """What judge_runs.scores holds: ids and numbers, no words."""
    return {
        "seed": seed,
        "votes": {str(id_): list(tally.votes) for id_, tally in tallies.items()},
        "mean": {str(id_): tally.mean for id_, tally in tallies.items()},
        "spread": {str(id_): tally.spread for id_, tally in tallies.items()},
        "unscored": [str(id_) for id_ in unscored],
        "scale": [str(id_) for id_ in scale],
    }
