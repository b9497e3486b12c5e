"""A row of an export as what it was: a draft of an exchange, with its ids, its group and its judgements.

Invariant: exported again, the row is the same. A version is taken over by its number only where the policy has no
other adapter under it (I2).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.drafts import Draft
from ledger.exports.columns import EXPORT_VERSION
from ledger.imports.identity import copied_id
from ledger.imports.lines import BadLineError
from ledger.policies import Policy
from ledger.records import Attribution, CallRecord, ChoiceRecord
from ledger.text import from_storable, from_storable_text
from ledger.vocabulary import ExchangeStatus, GroupKind, IdentifiedBy, Reason

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a row goes. `versions`: number -> digest of the adapter that the policy has under it."""

    policy: Policy
    versions: Mapping[int, str | None]
    is_copy: bool  # into another project than it came from

    def id_of(self, id_: UUID) -> UUID:
        return copied_id(id_, self.policy.project) if self.is_copy else id_


def is_exported(line: Row) -> bool:
    """Raises BadLineError for a row that a later version wrote."""
    if "export_version" not in line:
        return False
    version = line["export_version"]
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= EXPORT_VERSION:
        raise BadLineError(
            f"its export_version is {version!r}, and this Slipstream reads up to {EXPORT_VERSION}: update it, or export again"
        )
    return True


def id_of(row: Row) -> UUID:
    """Raises BadLineError."""
    try:
        return UUID(row["id"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadLineError(f"no row of an export: {type(error).__name__} {error}") from error


def draft_of(row: Row, target: Target) -> Draft:
    """Raises BadLineError."""
    try:
        return _draft(row, target)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, BadLineError):
            raise
        raise BadLineError(f"no row of an export: {type(error).__name__} {error}") from error


def events_of(row: Row, target: Target) -> list[dict[str, Any]]:
    """Its reward events, as rows of `reward_events` but for what they judge. Raises BadLineError."""
    try:
        return [_event(event, target) for event in row.get("rewards") or ()]
    except (KeyError, TypeError, ValueError) as error:
        raise BadLineError(f"a reward cannot be read: {type(error).__name__} {error}") from error


def _draft(row: Row, target: Target) -> Draft:
    index = _whole(row, "choice_index")
    id_ = target.id_of(UUID(row["id"]))
    choice = _choice(row, index)
    reason = Reason(row["untrainable_reason"]) if row["untrainable_reason"] else None
    draft = Draft(
        id=id_,
        wanted_trajectory_id=target.id_of(UUID(row["trajectory_id"])),
        name=row["external_id"],
        call=_call(row, target, UUID(int=id_.int - index), choice),
        choice=choice,
        policy=target.policy,
        identified_by=IdentifiedBy(row["identified_by"] or IdentifiedBy.NEW),
        retry_of=target.id_of(UUID(row["retry_of"])) if row["retry_of"] else None,
        reason=reason or _reason(row, target, choice),
    )
    if draft.prompt_index != _whole(row, "prompt_index"):
        raise BadLineError("prompt_index and choice_index do not belong together")
    return draft


def _reason(row: Row, target: Target, choice: ChoiceRecord) -> Reason | None:
    """A trainable row is checked again: a file may have been edited."""
    if not row["prompt_ids"] or not choice.completion_ids:
        return Reason.MISSING_TOKEN_IDS
    if choice.sampling_logprobs is None:
        return Reason.MISSING_LOGPROBS
    if len(choice.sampling_logprobs) != len(choice.completion_ids):
        return Reason.LOGPROBS_MISMATCH
    version = row["version"]
    if version is None:
        return Reason.EXTERNAL_MODEL
    is_base = version == 0 and row["base_model"] == target.policy.base_model
    is_known = version in target.versions and target.versions[version] != row["adapter_sha256"]
    return (
        Reason.VERSION_MISMATCH
        if (is_known and not is_base) or row["base_model"] != target.policy.base_model
        else None
    )


def _call(row: Row, target: Target, call_id: UUID, choice: ChoiceRecord) -> CallRecord:
    num_samples, num_prompts = _shape(row)
    return CallRecord(
        call_id=call_id,
        project=target.policy.project,
        policy=target.policy.name,
        version=row["version"],
        attribution=_attribution(row, target),
        request_id=from_storable_text(row["request_id"]),
        endpoint=from_storable_text(row["endpoint"]),
        is_streamed=row["is_streamed"],
        requested_model=from_storable_text(row["requested_model"]),
        messages=from_storable(row["messages"]),
        request=from_storable(row["request"]),
        started_at=_moment(row["started_at"]),
        status=ExchangeStatus(row["status"]),
        num_choices=num_samples * num_prompts,
        num_prompts=num_prompts,
        answered_model=_text(row["answered_model"]),
        client_name=_text(row["client_name"]),
        http_status=row["http_status"],
        error=from_storable(row["error"]),
        is_delivered=row["is_delivered"],
        request_sha256=row["request_sha256"],
        num_retries=_whole(row, "num_retries"),
        prompt_ids=row["prompt_ids"],
        num_prompt_tokens=row["num_prompt_tokens"],
        temperature=from_storable(row["temperature"]),
        top_p=from_storable(row["top_p"]),
        top_k=row["top_k"],
        max_tokens=row["max_tokens"],
        seed=row["seed"],
        first_token_seconds=from_storable(row["first_token_seconds"]),
        total_seconds=from_storable(row["total_seconds"]),
        choices=[choice],
        is_explored=bool(row.get("is_explored")),  # older files have neither
        is_shadow=bool(row.get("is_shadow")),
    )


def _shape(row: Row) -> tuple[int, int]:
    """Choices of a prompt, and prompts of the call, as far as its group and its prompt's index tell."""
    is_choices = row["group_kind"] == GroupKind.CHOICES
    num_samples = row["group_size"] if is_choices and row["group_size"] else 1
    has_prompts = row["prompt_index"] or (is_choices and ":" in str(row["group_key"]))
    return num_samples, max(2, row["prompt_index"] + 1) if has_prompts else 1


def _choice(row: Row, index: int) -> ChoiceRecord:
    logprobs = row["logprobs"]
    return ChoiceRecord(
        index=index,
        response=from_storable(row["response"]),
        text=_text(row["completion_text"]),
        completion_ids=row["completion_ids"],
        sampling_logprobs=None if logprobs is None else [float(from_storable(one)) for one in logprobs],
        finish_reason=_text(row["finish_reason"]),
        stop_reason=_text(row["stop_reason"]),
        conversation_sha256=row["conversation_sha256"],
        num_completion_tokens=row["num_completion_tokens"],
    )


def _attribution(row: Row, target: Target) -> Attribution:
    is_explicit = row["group_kind"] == GroupKind.EXPLICIT
    return Attribution(
        trajectory_id=target.id_of(UUID(row["trajectory_id"])),
        identified_by=IdentifiedBy(row["trajectory_identified_by"] or IdentifiedBy.NEW),
        group_key=from_storable_text(row["group_key"]) if is_explicit else None,
        group_size=row["group_size"] if is_explicit else None,
        turn_type=row["turn_type"],
        metadata=from_storable(row["metadata"]),
        end_user=_text(row["end_user"]),
    )


def _event(event: Row, target: Target) -> dict[str, Any]:
    return {
        "id": target.id_of(UUID(event["id"])),
        "project_id": target.policy.project_id,
        "target": event["target"],
        "exchange_id": target.id_of(UUID(event["exchange_id"])) if event["exchange_id"] else None,
        "metric": event["metric"],
        "value": event["value"],
        "content": event["content"],
        "comment": event["comment"],
        "source": event["source"],
        "is_retraction": event["is_retraction"],
        "idempotency_id": event["idempotency_id"],
        "observed_at": _moment(event["observed_at"]),
        "is_final": event.get("is_final", True),  # files from before these were
        "is_whole": event.get("is_whole", False),
        "comparison_id": target.id_of(UUID(event["comparison_id"])) if event.get("comparison_id") else None,
    }


def _whole(row: Row, name: str) -> int:
    return int(row[name] or 0)


def _text(value: str | None) -> str | None:
    return None if value is None else from_storable_text(value)


def _moment(value: datetime | str) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)
