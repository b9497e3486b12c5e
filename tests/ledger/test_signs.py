"""What looks wrong in a line of steps, and that nothing does in a healthy one."""

import re
from typing import Any

import pytest

from ledger.figures import BY_NAME
from ledger.signs import signs

HEALTHY: dict[str, Any] = {
    "version": 1, "state": "published", "kind": "grpo", "reason": None, "attempt": 1, "drops": {}, "tokens_dropped": 0,
    "seconds_total": 60.0, "seconds_waiting": 1.0, "grad_clip": 1.0, "reward_mean": 0.5, "reward_spread": 0.4,
    "frac_groups_without_variance": 0.2, "loss": 0.0, "grad_norm": 0.3, "ratio_mean": 1.0, "logprob_difference": 0.001,
    "staleness_max": 0, "staleness_mean": 0.0, "masked_fraction": 0.0, "entropy": 1.0, "completion_tokens_mean": 50.0,
    "tokens_used": 1000,
}  # fmt: skip


def line(num: int = 6, **changes: Any) -> list[dict[str, Any]]:
    """Healthy steps; `changes` of each, or, as a list, of the last ones."""
    rows = [dict.fromkeys(BY_NAME) | HEALTHY | {"version": n + 1} for n in range(num)]
    for name, value in changes.items():
        values = value if isinstance(value, list) else [value] * num
        for row, one in zip(rows[num - len(values) :], values, strict=True):
            row[name] = one
    return rows


def test_a_healthy_line_has_no_sign_and_a_loss_of_zero_is_none() -> None:
    """B113: loss 0 with a gradient is alive."""
    assert signs(line()) == []
    assert signs([]) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (line(state=["skipped"] * 3, reason="None can teach."), "last 3 steps learned nothing: None can"),
        (line(state=["failed"], reason=["NaN"]), "last step failed, .*: NaN"),
        (line(frac_groups_without_variance=[0.95, 1.0, 0.9]), "at least 90% of the groups"),  # B110
        (line(grad_norm=[0.0]), "Version 6 had a gradient of exactly 0"),
        (line(ratio_mean=[1.3]), "disagree about fresh samples .*version 6: mean ratio 1.3"),
        (line(logprob_difference=[0.4]), "logprobs 0.4 apart"),
        (line(masked_fraction=[0.2, 0.3, 0.15]), "At least 15% of the tokens"),
        (line(entropy=[0.5, 0.2]), "entropy fell from 1 to 0.2"),
        (line(grad_norm=[3.0] * 5), "clipped in each of the last 5 steps .norm 3"),
        (line(completion_tokens_mean=[80.0, 90.0, 100.0]), "Answers grew from 50 to 90 tokens"),
        (line(drops=[{"too_stale": 1500}] * 3, tokens_dropped=[1500] * 3), "60% of the tokens .* too stale"),
        (line(seconds_waiting=[500.0], seconds_total=[600.0]), "Version 6 took 600 s, 500 of them waiting"),
    ],
)
def test_what_looks_wrong_is_said_once(rows: list[dict[str, Any]], said: str) -> None:
    found = signs(rows)
    assert len(found) == 1
    assert re.search(said, found[0]), found[0]


@pytest.mark.parametrize(
    "rows",
    [
        line(state=["skipped", "skipped", "published"]),  # it learns again
        line(state=["failed", "published"], reason=["NaN", None]),
        line(frac_groups_without_variance=[1.0, 1.0, 0.5]),
        line(ratio_mean=[1.3], staleness_max=[2]),  # stale samples may differ
        line(masked_fraction=[0.0, 0.3, 0.3]),
        line(3, entropy=[1.0, 0.2, 0.1]),  # too few to tell
        line(grad_norm=[3.0] * 4),
        line(5, completion_tokens_mean=[10.0, 50.0, 90.0, 90.0, 90.0]),
        line(drops=[{"too_stale": 500}] * 3, tokens_dropped=[500] * 3),
        line(seconds_waiting=[20.0], seconds_total=[30.0]),
        line(kind="sft", ratio_mean=None, staleness_max=None, frac_groups_without_variance=None),
        line(**dict.fromkeys(BY_NAME)),  # of an older version, which wrote no figure
    ],
)
def test_what_may_happen_is_no_sign(rows: list[dict[str, Any]]) -> None:
    assert signs(rows) == []
