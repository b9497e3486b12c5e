"""Whether the trainer may use an exchange, and if not, the one reason (I3, I10). Pure; the first that holds wins."""

import math
from collections.abc import Sequence

from ledger.records import CallRecord, ChoiceRecord, prompt_of
from ledger.vocabulary import ExchangeStatus, Reason

_STATUS_REASONS = {
    ExchangeStatus.FAILED: Reason.FAILED,
    ExchangeStatus.INTERRUPTED: Reason.INTERRUPTED,
    ExchangeStatus.CANCELLED: Reason.CANCELLED,
}


def untrainable_reason(call: CallRecord, choice: ChoiceRecord) -> Reason | None:
    """None = trainable: complete, drawn among more than one token, and by the version that it names."""
    prompt_ids = prompt_of(call, choice)
    return _reason_of_call(call) or _reason_of_tokens(prompt_ids, choice) or _reason_of_sampling(call)


def _reason_of_call(call: CallRecord) -> Reason | None:
    if call.untrainable_reason is not None or call.version is None:
        return Reason(call.untrainable_reason or Reason.EXTERNAL_MODEL)
    if call.attribution.is_opted_out or call.attribution.turn_type != "main":
        return Reason.OPTED_OUT
    if call.status in _STATUS_REASONS:
        return _STATUS_REASONS[call.status]
    if call.retry_of is not None:
        return Reason.DUPLICATE_RETRY
    if call.expected_model is not None and call.answered_model != call.expected_model:
        return Reason.VERSION_MISMATCH
    return None


def _reason_of_tokens(prompt_ids: Sequence[int] | None, choice: ChoiceRecord) -> Reason | None:
    if not prompt_ids or choice.completion_ids is None:
        return Reason.MISSING_TOKEN_IDS
    if choice.sampling_logprobs is None:
        return Reason.MISSING_LOGPROBS
    if len(choice.completion_ids) != len(choice.sampling_logprobs):
        return Reason.LOGPROBS_MISMATCH
    if not all(map(math.isfinite, choice.sampling_logprobs)):
        return Reason.LOGPROBS_MISMATCH
    return None if choice.completion_ids else Reason.EMPTY_COMPLETION


def _reason_of_sampling(call: CallRecord) -> Reason | None:
    return Reason.GREEDY if is_greedy(call.temperature, call.top_k) else None


def is_greedy(temperature: float | None, top_k: int | None) -> bool:
    """Whether vLLM takes the likeliest token each time: it draws among one, or not at all."""
    return temperature == 0 or top_k == 1
