"""Where memory runs out in one process, all cut the step anew, or all stop."""

from dataclasses import asdict
from typing import Any

import pytest
import torch

from trainer.distributed import crew as crews
from trainer.distributed.crew import Crew
from trainer.distributed.deal import ModelSize
from trainer.errors import BatchError
from trainer.gradients import GradientSum
from trainer.grpo.metrics import LossMetrics

SIZE = ModelSize(num_trunk=1, num_head=1, attention_width=1)


def test_when_a_peer_ran_out_of_memory_nothing_is_summed_and_we_start_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[dict[str, Any]] = []

    def gathered(value: dict[str, Any]) -> list[dict[str, Any]]:
        said.append(value)
        return [value, {}]

    monkeypatch.setattr(crews, "gathered", gathered)
    crew = Crew(0, 2, SIZE, is_sharded=False)
    with pytest.raises(MemoryError, match="another process"):
        crew.total(LossMetrics(loss=2.0), GradientSum({"a": torch.zeros(1)}))
    crew.run_out()
    assert said == [asdict(LossMetrics(loss=2.0)), {}]


def test_with_a_split_base_the_attempt_ends_where_memory_runs_out() -> None:
    with pytest.raises(BatchError, match="SLIPSTREAM_TRAINER_MEMORY_MIB"):
        Crew(0, 2, SIZE, is_sharded=True).run_out()
