"""Where a policy's next step begins: at its live version, or at the base, where the settings want another shape.

A new line is versions of one rank and alpha that begin at the base again, under the policy's next numbers. Invariant: no
version is trained from one of another shape or base (docs/decisions/0025-policies-and-settings.md).
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from ledger.policies import Policy, adapter_name
from ledger.workers import worker_of
from trainer.errors import CheckpointError
from trainer.settings import TrainerSettings

_SHAPE = text(
    "SELECT lora_rank, lora_alpha FROM policy_versions WHERE policy_id = :policy_id AND version = :version"
)
_CONFIG = "adapter_config.json"  # as peft names it
NEW_LINE = "new_line"  # the key in a step's metrics
Shape = tuple[int, float]  # rank, alpha


@dataclass(frozen=True, slots=True)
class NextParent:
    """Example: live is 7 with rank 8, the settings say 16 -> parent 0, and a new line after 7, whose shape was (8, 16.0)."""

    version: int
    live_version: int
    shape: Shape
    old_shape: Shape | None = None  # of the line that this one follows

    @property
    def is_new_line(self) -> bool:
        return self.old_shape is not None

    @property
    def metrics(self) -> dict[str, Any]:
        """What the step says of it."""
        if self.old_shape is None:
            return {}
        rank, alpha = self.shape
        old_rank, old_alpha = self.old_shape
        return {
            NEW_LINE: {
                "after_version": self.live_version,
                "rank": rank,
                "alpha": alpha,
                "old_rank": old_rank,
                "old_alpha": old_alpha,
            }
        }


def next_parent(
    connection: Connection, policy: Policy, live_version: int, settings: TrainerSettings
) -> NextParent:
    """From live where its adapter has the settings' shape, else from the base."""
    wanted = settings.lora_rank, settings.lora_alpha
    had = shape_of(connection, policy, live_version, settings.adapters)
    if had is None or had == wanted:
        return NextParent(live_version, live_version, wanted)
    return NextParent(0, live_version, wanted, had)


def shape_of(connection: Connection, policy: Policy, version: int, adapters: Path) -> Shape | None:
    """Rank and alpha of a version: as recorded, else as its adapter says. None for the base, and where nobody knows."""
    if version == 0:
        return None
    row = connection.execute(_SHAPE, {"policy_id": policy.id, "version": version}).one_or_none()
    if row is not None and row.lora_rank is not None and row.lora_alpha is not None:
        return row.lora_rank, row.lora_alpha
    config = _config(adapters, adapter_name(policy.line, version))
    return (int(config["r"]), float(config["lora_alpha"])) if {"r", "lora_alpha"} <= config.keys() else None


def is_contested(connection: Connection, policy: Policy, settings: TrainerSettings) -> bool:
    """Whether the newest worker of this policy wants another shape than these settings: two that take turns would begin
    a line each time.
    """
    newest = worker_of(connection, policy.id)
    if newest is None:
        return False
    own = settings.planning()
    return any(newest.settings.get(name, own[name]) != own[name] for name in ("lora_rank", "lora_alpha"))


def live_at_beginning(parent_version: int, metrics: dict[str, Any]) -> int:
    """The version that staleness counts from: live when the step began, also where a new line starts from the base."""
    return int(metrics.get(NEW_LINE, {}).get("after_version", parent_version))


def check_base(adapters: Path, name: str, base_model: str) -> None:
    """Raises CheckpointError for an adapter of another base."""
    made_on = _config(adapters, name).get("base_model_name_or_path", base_model)
    if made_on != base_model:
        raise CheckpointError(
            f"{name} was trained on {made_on!r}, and the policy now says {base_model!r}: an adapter is never applied to another "
            "base. Set the policy's base model back, and give the new one a policy name of its own"
        )


def _config(adapters: Path, name: str) -> dict[str, Any]:
    """Empty where it cannot be read: whoever needs the adapter says so."""
    try:
        found = json.loads((adapters / name / _CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
