"""Which calls were drawn from another distribution than the model's own at its temperature."""

from typing import Any

import pytest
from sqlalchemy import Connection

from ledger.conversation import whole_exchanges
from ledger.recording import record_calls
from ledger.reshaping import is_reshaped
from tests.ledger.calls import a_call, a_policy

RESHAPED: list[dict[str, Any]] = [
    {"min_p": 0.1},
    {"presence_penalty": -0.5},
    {"frequency_penalty": 1},
    {"repetition_penalty": 1.1},
    {"logit_bias": {"7": 5}},
    {"bad_words": ["no"]},
    {"allowed_token_ids": [1, 2]},
    {"min_tokens": 3},
    {"thinking_token_budget": 50},
    {"structured_outputs": {"choice": ["a", "b"]}},
    {"response_format": {"type": "json_object"}},
    {"tool_choice": "required"},
    {"tool_choice": {"type": "function", "function": {"name": "f"}}},
]
AS_IT_IS: list[dict[str, Any]] = [
    {},
    {"min_p": 0, "presence_penalty": 0.0, "frequency_penalty": 0, "repetition_penalty": 1.0, "min_tokens": 0},
    {"logit_bias": {}, "bad_words": [], "response_format": {"type": "text"}, "tool_choice": "auto"},
    {"min_p": None, "logit_bias": None, "structured_outputs": None, "tool_choice": "none"},
    {"temperature": 0.3, "stop": ["x"], "max_tokens": 5, "ignore_eos": True, "tools": [{"type": "function"}]},
]


@pytest.mark.parametrize("request_", RESHAPED, ids=str)
def test_what_cuts_pushes_or_forces_reshapes(request_: dict[str, Any]) -> None:
    assert is_reshaped(None, None, request_)


@pytest.mark.parametrize("request_", AS_IT_IS, ids=str)
def test_what_changes_no_distribution_does_not(request_: dict[str, Any]) -> None:
    assert not is_reshaped(None, None, request_)


@pytest.mark.parametrize(
    ("top_p", "top_k", "expected"),
    [(None, None, False), (1.0, -1, False), (1, 0, False), (0.9, None, True), (None, 40, True)],
)
def test_a_nucleus_or_a_top_k_reshapes(top_p: float | None, top_k: int | None, *, expected: bool) -> None:
    assert is_reshaped(top_p, top_k, {}) is expected


def test_an_exchange_says_whether_it_was_reshaped(connection: Connection) -> None:
    """An explored call was drawn without the min_p that its request keeps; penalties held there, too."""
    a_policy(connection)
    calls = [
        a_call(request={"tools": [{"type": "function"}], "metadata": {"min_p": 1}}),
        a_call(request={"response_format": {"type": "json_object"}}),
        a_call(top_p=0.9),
        a_call(request={"min_p": 0.5}),
        a_call(request={"min_p": 0.5}, is_explored=True),
        a_call(request={"presence_penalty": 0.5}, is_explored=True),
    ]
    record_calls(connection, calls)
    found = whole_exchanges(connection, [call.attribution.trajectory_id for call in calls])
    assert [found[call.attribution.trajectory_id][0].is_reshaped for call in calls] == [
        False, True, True, True, False, True,
    ]  # fmt: skip
