"""The version that a step starts from."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Parent:
    """Its adapter, its optimizer's moments, how often it was trained; nothing for version 0, or for a new line."""

    adapter: dict[str, Tensor] | None = None
    moments: dict[str, Tensor] | None = None
    optimizer_step: int = 0
