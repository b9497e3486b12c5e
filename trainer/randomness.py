"""Chance in a step: every draw comes from the step's own seed, which is made of the setting and the version.

Invariant (I9): what happened in the process before changes nothing, and the step changes nothing outside itself. So the
seed is the whole of the state; the generator's digest afterwards tells whether two attempts drew the same.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(slots=True)
class Randomness:
    """`generator_sha256` after the step; `is_used`: whether anything was drawn at all (today: nothing is)."""

    seed: int
    generator_sha256: str = ""
    is_used: bool = False

    def as_state(self) -> dict[str, Any]:
        return {"seed": self.seed, "generator_sha256": self.generator_sha256, "is_used": self.is_used}


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[Randomness]:
    """The generators of torch, those of the device included, begin at `seed` and are put back afterwards."""
    found = Randomness(seed)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        before = _digest(device)
        yield found
        found.generator_sha256 = _digest(device)
        found.is_used = found.generator_sha256 != before


def _digest(device: torch.device) -> str:
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return hashlib.sha256(b"".join(state.numpy().tobytes() for state in states)).hexdigest()
