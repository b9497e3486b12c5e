"""What the demo leaves behind for a program to read: `result.json`."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """Held-out mean reward before (version 0) and after (the last version), with 95 % intervals over sentences."""

    seed: int
    steps: int
    heldout_before: float
    heldout_after: float
    ci95_before: tuple[float, float]
    ci95_after: tuple[float, float]
    versions: list[dict[str, Any]]
    tokens: int
    seconds: float
    sampling: dict[str, Any]
    heldout_prompts: int
    heldout_sentences: int

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    def has_improved(self, by: float) -> bool:
        """At least `by` better, with intervals that do not touch."""
        return self.heldout_after - self.heldout_before >= by and self.ci95_before[1] < self.ci95_after[0]
