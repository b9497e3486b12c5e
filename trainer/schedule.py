"""The learning rate of an optimizer step: a pure function, so the count of optimizer steps is all of the scheduler's state.

A checkpoint holds that count (`optimizer_step`) and the settings; whoever resumes computes the same rate (I9).
"""

from typing import Any

from trainer.settings import TrainerSettings


def learning_rate_at(settings: TrainerSettings, optimizer_step: int) -> float:
    """`optimizer_step` counts a line's steps from 1. Example: rate 1e-3, warm-up 4: 2.5e-4, 5e-4, 7.5e-4, 1e-3, 1e-3 …"""
    return settings.learning_rate * min(1.0, optimizer_step / max(settings.warmup_steps, 1))


def scheduler_state(settings: TrainerSettings, optimizer_step: int) -> dict[str, Any]:
    """Where the schedule stands, as a checkpoint says it."""
    return {
        "optimizer_step": optimizer_step,
        "warmup_steps": settings.warmup_steps,
        "learning_rate": learning_rate_at(settings, optimizer_step),
        "next_learning_rate": learning_rate_at(settings, optimizer_step + 1),
    }
