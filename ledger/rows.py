"""A draft as a row of `exchanges`: storable, within the columns' ranges, and only what its parent does not hold."""

from typing import Any
from uuid import UUID

from ledger.bulk import integers, reals
from ledger.deltas import Delta, Transcript
from ledger.drafts import Draft
from ledger.text import to_json_bytes, to_storable_text

# In the order in which `exchange_row` and the functions below it give them.
COLUMNS = (
    "id", "trajectory_id", "project_id", "policy_id", "version", "request_id", "endpoint", "is_streamed",
    "requested_model", "answered_model", "client_name", "status", "http_status", "error", "is_delivered",
    "retry_of", "key_id", "request_sha256", "num_retries", "identified_by", "continues_sha256", "turn_type",
    "started_at", "first_token_seconds", "total_seconds", "temperature", "top_p", "top_k", "max_tokens",
    "seed", "choice_index", "prompt_index", "conversation_sha256", "response", "completion_text",
    "completion_ids", "logprobs", "finish_reason", "stop_reason", "num_completion_tokens",
    "parent_exchange_id", "num_shared_tokens", "num_shared_messages", "num_messages", "messages", "request",
    "prompt_ids", "num_prompt_tokens", "num_transcript_tokens", "transcript_sha256", "messages_sha256",
    "is_trainable", "untrainable_reason", "erased_at", "is_explored",
    "is_shadow",
)  # fmt: skip


def exchange_row(
    draft: Draft, trajectory_id: UUID, delta: Delta, transcript: Transcript | None
) -> tuple[Any, ...]:
    """Every column of `exchanges` but created_at: COLUMNS."""
    return (
        draft.id,
        trajectory_id,
        draft.policy.project_id,
        draft.policy.id,
        *_of_call(draft),
        *_of_sampling(draft),
        *_of_choice(draft),
        *_of_prompt(draft, delta, transcript),
        *_of_transcript(transcript),
        draft.reason is None,
        draft.reason,
        draft.erased_at,
        draft.call.is_explored,
        draft.call.is_shadow,
    )


def _of_call(draft: Draft) -> tuple[Any, ...]:
    call = draft.call
    return (
        call.version,
        to_storable_text(call.request_id),
        to_storable_text(call.endpoint),
        call.is_streamed,
        to_storable_text(call.requested_model),
        _text(call.answered_model),
        _text(call.client_name),
        str(call.status),
        call.http_status,
        _json(call.error),
        call.is_delivered,
        draft.retry_of,
        call.key_id,
        draft.request_sha256,
        _integer(call.num_retries, 31) or 0,
        str(draft.identified_by),
        draft.continues_sha256,
        "main" if call.attribution.turn_type == "main" else "side",
        call.started_at,
        _number(call.first_token_seconds),
        _number(call.total_seconds),
    )


def _of_sampling(draft: Draft) -> tuple[Any, ...]:
    call = draft.call
    return (
        _number(call.temperature),
        _number(call.top_p),
        _integer(call.top_k, 31),
        _integer(call.max_tokens, 31),
        _integer(call.seed, 63),
    )


def _of_choice(draft: Draft) -> tuple[Any, ...]:
    choice = draft.choice
    return (
        choice.index,
        draft.prompt_index,
        draft.conversation_sha256,
        _json(choice.response),
        _text(choice.text),
        integers(choice.completion_ids),
        reals(choice.sampling_logprobs),
        _text(choice.finish_reason),
        _text(choice.stop_reason),
        choice.num_completion_tokens if choice.completion_ids is None else len(choice.completion_ids),
    )


def _of_prompt(draft: Draft, delta: Delta, transcript: Transcript | None) -> tuple[Any, ...]:
    call = draft.call
    prompt_ids, messages = draft.prompt_ids, call.messages
    is_own_prompt = draft.choice.prompt_ids is not None and call.num_prompts > 1
    return (
        delta.parent_exchange_id,
        delta.num_shared_tokens,
        delta.num_shared_messages,
        None if messages is None else len(messages),
        _messages(messages, delta.num_shared_messages, transcript),
        _json(call.request),
        integers(prompt_ids if prompt_ids is None else prompt_ids[delta.num_shared_tokens :]),
        len(prompt_ids or []) if is_own_prompt else call.num_prompt_tokens,
    )


def _messages(messages: list[Any] | None, num_shared: int, transcript: Transcript | None) -> bytes | None:
    if transcript is not None and not num_shared:
        return transcript.messages_text
    return None if messages is None else to_json_bytes(messages[num_shared:])


def _of_transcript(transcript: Transcript | None) -> tuple[Any, ...]:
    return (
        transcript and transcript.num_tokens,
        transcript and _bytea(transcript.tokens_sha256),
        transcript and _bytea(transcript.messages_sha256),
    )


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
