"""What is recorded about a batch, and what a person is told when it teaches nothing. Pure."""

from collections import Counter
from collections.abc import Sequence
from math import fsum, sqrt
from typing import Any

from trainer.build import Batch
from trainer.verdicts import SampleRow

HELP = {
    "no_variance": "inside a group the rewards must differ: score more finely, sample at a higher temperature, or "
    "choose tasks that the model half fails",
    "unscored": "post rewards for more members of a group",
    "group_incomplete": "a group needs two scored members that can be trained on",
    "no_baseline": "post rewards for more calls of the same kind: a lone one is compared with "
    "SLIPSTREAM_BASELINE_MIN_SAMPLES others of its route, and X-Route names what belongs together",
    "truncated": "allow longer answers, or set SLIPSTREAM_TRAIN_TRUNCATED=true",
    "reshaped": "sample without top_p, penalties or grammars, or set SLIPSTREAM_TRAIN_RESHAPED=true",
    "greedy": "calls at temperature 0 cannot teach: sample at a temperature above 0, or see SLIPSTREAM_EXPLORE_SHARE",
    "too_stale": "the samples are older than SLIPSTREAM_MAX_STALENESS versions: reward them sooner, or raise it",
    "too_long": "raise SLIPSTREAM_SAMPLE_MAX_TOKENS, if memory allows",
}


def batch_metrics(batch: Batch) -> dict[str, Any]:
    """Rewards over trajectories; advantages, baselines and tokens over exchanges, by what became of them (I10, B110)."""
    rewards = {
        row.trajectory_id: row.trajectory_reward for row in batch.rows if row.trajectory_reward is not None
    }
    values = list(rewards.values())
    advantages = [row.advantage for row in batch.rows if row.advantage is not None]
    num_groups = len({row.group_id for row in batch.rows}) + len(batch.empty)
    dropped: Counter[str] = Counter()
    for row in batch.rows:
        if row.reason is not None:
            dropped[str(row.reason)] += row.num_completion_tokens
    used = [row for row in batch.rows if row.is_used]
    staleness = [row.staleness or 0 for row in used]
    silent = Counter(batch.silent_groups.values())
    return {
        "num_groups": num_groups,
        "frac_groups_without_variance": silent["no_variance"] / num_groups if num_groups else 0.0,
        "num_groups_by_reason": dict(sorted(silent.items())),
        "num_exchanges_by_baseline": _by_baseline(used),
        "num_groups_without_signal": len(batch.silent_groups),
        "num_groups_postponed": len(batch.postponed),
        "num_trajectories": len({row.trajectory_id for row in batch.rows}),
        "num_used_exchanges": len(used),
        "reward_mean": _mean(values),
        "reward_spread": _spread(values),
        "reward_min": min(values, default=None),
        "reward_max": max(values, default=None),
        "advantage_spread": _spread(advantages),
        "staleness_mean": _mean(staleness),
        "staleness_max": max(staleness, default=None),
        "tokens_used": sum(row.num_completion_tokens for row in used),
        "tokens_dropped": dict(sorted(dropped.items())),
    }


def nothing_to_learn(batch: Batch) -> str:
    """One sentence of what was found, one of what would help most."""
    counts = Counter(batch.silent_groups.values())
    if not batch.rows:
        return "The groups of this step have no exchanges left."
    found = ", ".join(f"{number} {reason}" for reason, number in counts.most_common())
    advice = HELP.get(counts.most_common(1)[0][0], "v1.exchanges.untrainable_reason says more")
    return f"None of {sum(counts.values())} groups can teach ({found}). What would help: {advice}."


def _by_baseline(used: list[SampleRow]) -> dict[str, int]:
    """How many were compared with what: the rungs of the ladder."""
    return dict(sorted(Counter(str(row.baseline_kind) for row in used).items()))


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _spread(values: Sequence[float]) -> float | None:
    if not values:
        return None
    mean = fsum(values) / len(values)
    return sqrt(fsum((value - mean) ** 2 for value in values) / len(values))
