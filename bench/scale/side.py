"""One way to compute the steps, and how long each took. Every side goes on from its own last version."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from uuid import UUID

from torch import Tensor

from ledger.vocabulary import StepState
from trainer.claim import Step
from trainer.courses import RemoteModel, learn
from trainer.grpo.samples import Sample
from trainer.learned import Learned
from trainer.material import Material
from trainer.memory import peak_memory_mib
from trainer.parent import Parent
from trainer.policy_model import PolicyModel
from trainer.settings import TrainerSettings

_NOBODY = UUID(int=0)
STEP = Step(_NOBODY, _NOBODY, 1, 0, StepState.BUILT, 1, 1, seed=0, settings={}, metrics={})


@dataclass
class Side:
    who: str
    model: PolicyModel | RemoteModel
    settings: TrainerSettings
    parent: Parent = field(default_factory=Parent)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def step(self, samples: Sequence[Sample]) -> None:
        began = perf_counter()
        learned = learn(self.model, self.parent, Material(tuple(samples)), self.settings, STEP, lambda: None)
        seconds = perf_counter() - began
        self.parent = parent_of(learned)
        self.rows.append(
            {
                "who": self.who,
                "step": len(self.rows) + 1,
                "seconds": round(seconds, 3),
                "memory_mib": learned.metrics.get("peak_memory_mib", peak_memory_mib()),
                "balance": learned.metrics.get("process_balance", 1.0),
                "num_rows": learned.metrics["num_rows"],
            }
        )

    @property
    def seconds(self) -> float:
        """Of a step, the first aside."""
        return float(median(row["seconds"] for row in self.rows[1:]))

    def difference(self, other: "Side") -> float:
        """The largest between two weights of their adapters."""
        mine, theirs = self.parent.adapter or {}, other.parent.adapter or {}
        return max(float((mine[name] - theirs[name]).abs().max()) for name in mine)


def parent_of(learned: Learned) -> Parent:
    """Copies: the model goes on writing into its own."""
    return Parent(_copy(learned.adapter), _copy(learned.moments), learned.optimizer_step)


def settings_for(model: str, directory: Path, **changes: Any) -> TrainerSettings:
    values: dict[str, Any] = {
        "database_url": "postgresql://nowhere.invalid/ledger",
        "redis_url": "redis://127.0.0.1:1/0",
        "upstream_urls": "http://127.0.0.1:1",
        "base_model": model,
        "adapters": directory / "adapters",
        "device": "cpu",
        "row_tokens": 256,
        "trust_log_ratio": 50.0,
    }
    return TrainerSettings(**(values | changes))


def _copy(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}
