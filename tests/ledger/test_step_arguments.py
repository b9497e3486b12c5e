"""What may be said of a step that is asked for: what is not read is refused, with its name."""

from typing import Any

import pytest

from ledger import step_arguments
from ledger.errors import StepArgumentError
from ledger.step_arguments import ARGUMENTS, check_arguments
from ledger.vocabulary import StepKind


def test_every_kind_has_a_list_and_may_be_asked_for_in_a_pause() -> None:
    assert set(ARGUMENTS) == set(StepKind)
    assert all(known["even_if_paused"] is bool for known in ARGUMENTS.values())
    check_arguments(StepKind.GRPO, {"even_if_paused": True, "skip_grace": False})


@pytest.mark.parametrize(
    ("arguments", "param", "said"),
    [
        ({"skip_grase": True}, "skip_grase", "did you mean 'skip_grace'"),
        ({"x" * 200: 1}, "x" * 100, "nothing that a grpo step takes"),
        ({"skip_grace": 1}, "skip_grace", "'skip_grace' must be true or false."),
        ({"skip_grace": "true"}, "skip_grace", "must be true or false"),
    ],
)
def test_what_is_wrong_is_named(arguments: dict[str, Any], param: str, said: str) -> None:
    with pytest.raises(StepArgumentError, match=said) as refused:
        check_arguments(StepKind.GRPO, arguments)
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("wanted", "value", "fits"),
    [
        (int, 2, True), (int, True, False), (int, 2.0, False), (float, 2, True), (float, 0.5, True),
        (float, True, False), (float, "1", False), (str, "a", True), (str, ["a"], False), (list, ["a"], True),
        (list, [1], False), (list, "a", False), (int, 10**400, False), (float, -(10**400), False),
        (float, float("nan"), False), (float, float("inf"), False),
    ],
)  # fmt: skip
def test_a_value_has_the_type_that_the_list_says(
    monkeypatch: pytest.MonkeyPatch, wanted: type, value: object, *, fits: bool
) -> None:
    monkeypatch.setattr(step_arguments, "ARGUMENTS", {StepKind.GRPO: {"x": wanted}})
    if fits:
        check_arguments(StepKind.GRPO, {"x": value})
    else:
        with pytest.raises(StepArgumentError, match="'x' must be"):
            check_arguments(StepKind.GRPO, {"x": value})
