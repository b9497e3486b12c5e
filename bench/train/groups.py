"""What is written for both sides: the exchanges with the sampling logprobs of the base, and the adapter both begin with.

The logprobs are the policy's own, computed once: at the first step every ratio is 1, so all losses have one gradient.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

from bench.train.shapes import Exchange
from trainer.grpo.samples import Sample, Turn, merge_turns
from trainer.settings import TrainerSettings

RANK, ALPHA, SEED = 8, 16.0, 0


def settings_for(model: str, folder: Path, **changes: Any) -> TrainerSettings:
    values: dict[str, Any] = {
        "database_url": "postgresql://nowhere.invalid/ledger",
        "redis_url": "redis://127.0.0.1:1/0",
        "upstream_urls": "http://127.0.0.1:1",
        "base_model": model,
        "adapters": folder / "adapters",
        "device": "cpu",
        "lora_rank": RANK,
        "lora_alpha": ALPHA,
        "seed": SEED,
    }
    return TrainerSettings(**(values | changes))


def advantages_of(exchanges: list[Exchange]) -> list[float]:
    """Each reward minus its group's mean, as TRL's with scale_rewards="none"."""
    first = {(one.group, one.member): one.reward for one in exchanges}
    means = {
        group: sum(reward for (of, _), reward in first.items() if of == group)
        / sum(of == group for of, _ in first)
        for group, _ in first
    }
    return [one.reward - means[one.group] for one in exchanges]


def samples_of(exchanges: list[Exchange], logprobs: list[list[float]]) -> list[Sample]:
    """By trajectory, as the ledger gives them to `learn`."""
    turns: dict[tuple[int, int], list[Turn]] = {}
    advantages = advantages_of(exchanges)
    for number, (one, advantage, of) in enumerate(zip(exchanges, advantages, logprobs, strict=True)):
        turn = Turn(UUID(int=number), 0, one.prompt_ids, one.completion_ids, of, 1.0, advantage)
        turns.setdefault((one.group, one.member), []).append(turn)
    return [sample for each in turns.values() for sample in merge_turns(each)]


def write(path: Path, exchanges: list[Exchange], logprobs: list[list[float]]) -> None:
    rows = [asdict(one) | {"logprobs": of} for one, of in zip(exchanges, logprobs, strict=True)]
    path.write_text(json.dumps(rows), encoding="utf-8")


def read(path: Path) -> tuple[list[Exchange], list[list[float]]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    logprobs = [row.pop("logprobs") for row in rows]
    return [Exchange(**row) for row in rows], logprobs
