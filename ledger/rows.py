"""A draft as a row of `exchanges`: storable, within the columns' ranges, and only what its parent does not hold."""

from typing import Any
from uuid import UUID

from ledger.bulk import integers, reals
from ledger.deltas import Delta, Transcript
from ledger.drafts import Draft
from ledger.text import to_json_bytes, to_storable_text


def exchange_row(
    draft: Draft, trajectory_id: UUID, delta: Delta, transcript: Transcript | None
) -> dict[str, Any]:
    """Every column of `exchanges` but created_at."""
    return {
        "id": draft.id,
        "trajectory_id": trajectory_id,
        "project_id": draft.policy.project_id,
        "policy_id": draft.policy.id,
        **_of_call(draft),
        **_of_sampling(draft),
        **_of_choice(draft),
        **_of_prompt(draft, delta),
        **_of_transcript(transcript),
        "is_trainable": draft.reason is None,
        "untrainable_reason": draft.reason,
    }


def _of_call(draft: Draft) -> dict[str, Any]:
    call = draft.call
    return {
        "version": call.version,
        "request_id": to_storable_text(call.request_id),
        "endpoint": to_storable_text(call.endpoint),
        "is_streamed": call.is_streamed,
        "requested_model": to_storable_text(call.requested_model),
        "answered_model": _text(call.answered_model),
        "client_name": _text(call.client_name),
        "status": str(call.status),
        "http_status": call.http_status,
        "error": _json(call.error),
        "is_delivered": call.is_delivered,
        "retry_of": draft.retry_of,
        "key_id": call.key_id,
        "request_sha256": draft.request_sha256,
        "num_retries": _integer(call.num_retries, 31) or 0,
        "identified_by": str(draft.identified_by),
        "continues_sha256": draft.continues_sha256,
        "turn_type": "main" if call.attribution.turn_type == "main" else "side",
        "started_at": call.started_at,
        "first_token_seconds": _number(call.first_token_seconds),
        "total_seconds": _number(call.total_seconds),
    }


def _of_sampling(draft: Draft) -> dict[str, Any]:
    call = draft.call
    return {
        "temperature": _number(call.temperature),
        "top_p": _number(call.top_p),
        "top_k": _integer(call.top_k, 31),
        "max_tokens": _integer(call.max_tokens, 31),
        "seed": _integer(call.seed, 63),
    }


def _of_choice(draft: Draft) -> dict[str, Any]:
    choice = draft.choice
    return {
        "choice_index": choice.index,
        "prompt_index": draft.prompt_index,
        "conversation_sha256": draft.conversation_sha256,
        "response": _json(choice.response),
        "completion_text": _text(choice.text),
        "completion_ids": integers(choice.completion_ids),
        "logprobs": reals(choice.sampling_logprobs),
        "finish_reason": _text(choice.finish_reason),
        "stop_reason": _text(choice.stop_reason),
        "num_completion_tokens": None if choice.completion_ids is None else len(choice.completion_ids),
    }


def _of_prompt(draft: Draft, delta: Delta) -> dict[str, Any]:
    call = draft.call
    prompt_ids, messages = draft.prompt_ids, call.messages
    is_own_prompt = draft.choice.prompt_ids is not None and call.num_prompts > 1
    return {
        "parent_exchange_id": delta.parent_exchange_id,
        "num_shared_tokens": delta.num_shared_tokens,
        "num_shared_messages": delta.num_shared_messages,
        "num_messages": None if messages is None else len(messages),
        "messages": _json(messages if messages is None else messages[delta.num_shared_messages :]),
        "request": _json(call.request),
        "prompt_ids": integers(prompt_ids if prompt_ids is None else prompt_ids[delta.num_shared_tokens :]),
        "num_prompt_tokens": len(prompt_ids or []) if is_own_prompt else call.num_prompt_tokens,
    }


def _of_transcript(transcript: Transcript | None) -> dict[str, Any]:
    return {
        "num_transcript_tokens": transcript and transcript.num_tokens,
        "transcript_sha256": transcript and _bytea(transcript.tokens_sha256),
        "messages_sha256": transcript and _bytea(transcript.messages_sha256),
    }


def _json(value: Any) -> bytes | None:
    return None if value is None else to_json_bytes(value)


def _bytea(value: bytes | None) -> str | None:
    return None if value is None else f"\\x{value.hex()}"


def _text(value: Any) -> str | None:
    return None if value is None else to_storable_text(str(value))


def _number(value: Any) -> float | None:
    """A refused request may hold anything: what is no number stays in `request` alone."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _integer(value: Any, bits: int) -> int | None:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return value if is_integer and -(1 << bits) <= value < 1 << bits else None
