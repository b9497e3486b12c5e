"""What may be asked of a step of sft or dpo; whatever makes no sense is named before a worker sees it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.errors import StepArgumentError
from ledger.step_arguments import check_arguments
from ledger.vocabulary import SftSource, StepKind
from ledger.wishes import DpoWish, SftWish, dpo_wish, own_arguments, sft_wish


def test_a_wish_is_read_with_its_defaults() -> None:
    assert sft_wish({"from": "best"}) == SftWish(SftSource.BEST, top=0.2)
    assert sft_wish({"from": "best", "min_reward": 0}) == SftWish(SftSource.BEST, min_reward=0.0)
    wanted = sft_wish({"from": "teacher", "since": "2026-11-01", "epochs": 3})
    assert wanted == SftWish(SftSource.TEACHER, since=datetime(2026, 11, 1, tzinfo=UTC), epochs=3)
    assert dpo_wish({"beta": 0.5}) == DpoWish(beta=0.5)
    assert own_arguments({"beta": 0.5, "even_if_paused": True}) == {"beta": 0.5}


@pytest.mark.parametrize(
    ("kind", "arguments", "param"),
    [
        (StepKind.SFT, {}, "from"),
        (StepKind.SFT, {"from": "dreams"}, "from"),
        (StepKind.SFT, {"from": "teacher", "top": 0.5}, "from"),
        (StepKind.SFT, {"from": "best", "top": 0.0}, "top"),
        (StepKind.SFT, {"from": "best", "top": 1.5}, "top"),
        (StepKind.SFT, {"from": "best", "min_reward": "high"}, "min_reward"),
        (StepKind.SFT, {"from": "best", "epochs": 0}, "epochs"),
        (StepKind.SFT, {"from": "best", "epochs": 1.5}, "epochs"),
        (StepKind.SFT, {"from": "best", "since": "yesterday"}, "since"),
        (StepKind.SFT, {"from": "best", "beta": 0.1}, "beta"),
        (StepKind.DPO, {"beta": 0}, "beta"),
        (StepKind.DPO, {"beta": True}, "beta"),
        (StepKind.DPO, {"epochs": 101}, "epochs"),
    ],
)
def test_what_makes_no_sense_is_refused_and_named(
    kind: StepKind, arguments: dict[str, Any], param: str
) -> None:
    with pytest.raises(StepArgumentError) as refused:
        check_arguments(kind, arguments)
    assert refused.value.param == param
    assert f"'{param}'" in str(refused.value)


@pytest.mark.parametrize("name", ["from", "since"])
def test_the_worker_checks_them_again(name: str) -> None:
    with pytest.raises(StepArgumentError):
        sft_wish({"from": "best", name: 7})
