from typing import Any

import pytest

from ledger.verdict import untrainable_reason
from ledger.vocabulary import ExchangeStatus, Reason
from tests.ledger.calls import a_call, a_choice, an_attribution

NAN, INF = float("nan"), float("-inf")


def test_a_complete_sampled_exchange_is_trainable() -> None:
    assert untrainable_reason(a_call(), a_choice()) is None


@pytest.mark.parametrize(
    ("reason", "call", "choice"),
    [
        (
            "external_model",
            {"untrainable_reason": Reason.EXTERNAL_MODEL, "status": ExchangeStatus.FAILED},
            {},
        ),
        (
            "opted_out",
            {"attribution": an_attribution(is_opted_out=True), "status": ExchangeStatus.FAILED},
            {},
        ),
        ("external_model", {"version": None}, {}),
        ("opted_out", {"attribution": an_attribution(turn_type="side")}, {}),
        ("failed", {"status": ExchangeStatus.FAILED}, {"completion_ids": None}),
        ("interrupted", {"status": ExchangeStatus.INTERRUPTED}, {}),
        ("cancelled", {"status": ExchangeStatus.CANCELLED}, {}),
        ("duplicate_retry", {"retry_of": a_call().call_id, "answered_model": "base"}, {}),
        ("version_mismatch", {"answered_model": "default@2", "prompt_ids": None}, {}),
        ("version_mismatch", {"answered_model": None}, {}),
        ("missing_token_ids", {"prompt_ids": None}, {}),
        ("missing_token_ids", {}, {"completion_ids": None}),
        ("missing_logprobs", {}, {"sampling_logprobs": None}),
        ("logprobs_mismatch", {}, {"sampling_logprobs": [-1.0]}),
        ("logprobs_mismatch", {}, {"sampling_logprobs": [-1.0, NAN, -1.0]}),
        ("logprobs_mismatch", {}, {"sampling_logprobs": [-1.0, INF, -1.0]}),
        ("empty_completion", {"temperature": 0.0}, {"completion_ids": [], "sampling_logprobs": []}),
        ("greedy", {"temperature": 0.0}, {}),
        ("greedy", {"top_k": 1}, {}),
    ],
)
def test_the_first_reason_wins(reason: str, call: dict[str, Any], choice: dict[str, Any]) -> None:
    """I3, I10."""
    assert untrainable_reason(a_call(**call), a_choice(**choice)) == reason
