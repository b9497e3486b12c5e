"""What is left of a call: ids, versions, counts and times. No word, no token, no name that a caller chose.

Pure. The same columns that `ledger.erasure.rows` empties in Postgres are empty here.
"""

from dataclasses import replace
from datetime import UTC, datetime

from ledger.drafts import Draft
from ledger.records import Attribution, CallRecord, ChoiceRecord
from ledger.vocabulary import Reason


def skeleton_of(call: CallRecord) -> CallRecord:
    """The call without its payload. It can be spooled, and recorded, like any other."""
    return replace(
        call,
        attribution=_attribution(call.attribution),
        request_id=call.call_id.hex,
        requested_model=call.answered_model or "",
        client_name=None,
        messages=None,
        request={},
        raw_request=None,
        error=None,
        request_sha256=None,
        num_retries=0,
        prompt_ids=None,
        choices=[_choice(choice) for choice in call.choices],
        untrainable_reason=call.untrainable_reason or Reason.ERASED,
        is_erased=True,
    )


def erased_draft(draft: Draft) -> Draft:
    """The draft of a call that was on its way when its user was erased."""
    if draft.erased_at:
        return draft
    return replace(
        draft,
        name=None,
        call=skeleton_of(draft.call),
        choice=_choice(draft.choice),
        reason=draft.reason or Reason.ERASED,
        erased_at=datetime.now(UTC),
    )


def _attribution(attribution: Attribution) -> Attribution:
    return replace(
        attribution,
        external_id=None,
        group_key=None,
        route=None,
        metadata=None,
        end_user=None,
        continues_sha256=None,
    )


def _choice(choice: ChoiceRecord) -> ChoiceRecord:
    """Its length stays: `num_completion_tokens` is a sum that people pay for."""
    ids = choice.completion_ids
    return replace(
        choice,
        response=None,
        text=None,
        completion_ids=None,
        sampling_logprobs=None,
        stop_reason=None,
        prompt_ids=None,
        conversation_sha256=None,
        num_completion_tokens=choice.num_completion_tokens if ids is None else len(ids),
    )
