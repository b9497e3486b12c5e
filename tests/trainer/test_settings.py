"""Which settings a step keeps: all that decide what it does to the weights, also those that nobody has thought of yet."""

import pytest
from pydantic import ValidationError

from trainer.settings import LEARNING_FIELDS, TIMING_FIELDS, Part, TrainerSettings

PLACES = {
    "database_url": "postgresql://x",
    "redis_url": "redis://x",
    "upstream_urls": ("http://x",),
    "base_model": "base",
}


def test_every_setting_says_of_what_part_it_is() -> None:
    """A new one that says nothing is no learning setting by accident, nor by accident none: this test is red."""
    parts = {name: field.json_schema_extra for name, field in TrainerSettings.model_fields.items()}
    assert [name for name, part in parts.items() if part not in [{"part": each} for each in Part]] == []


def test_a_step_that_goes_on_keeps_every_learning_setting_and_no_other() -> None:
    begun = TrainerSettings(
        **PLACES, learning_rate=0.5, train_truncated=False, step_groups=3, lease_seconds=9
    )
    now = TrainerSettings(**PLACES, policy="other", step_max_wait_seconds=7)
    resumed = now.with_learning(begun.planning())
    assert resumed.learning() == begun.learning()
    assert (resumed.learning_rate, resumed.train_truncated) == (0.5, False)
    assert (resumed.policy, resumed.step_groups, resumed.lease_seconds) == ("other", 8, 60.0)
    assert resumed.step_max_wait_seconds == 7


def test_the_loss_of_demonstrations_is_none_for_rewards() -> None:
    with pytest.raises(ValidationError, match="slipstream sft"):
        TrainerSettings(**PLACES, loss="nll")


def test_what_decides_samples_and_loss_is_stored_with_the_step() -> None:
    assert {"baseline_window", "train_truncated", "max_staleness", "lora_rank", "seed"} <= LEARNING_FIELDS
    assert {"group_grace_seconds", "tick_seconds"} <= TIMING_FIELDS
    assert not LEARNING_FIELDS & (TIMING_FIELDS | PLACES.keys())
