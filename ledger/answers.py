"""Recorded answers with all that it takes to imitate them: token ids where there are any, else messages.

Invariant: of what was erased, or opted out, nothing is handed on but that it was.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.conversation import whole_messages, whole_prompts
from ledger.text import from_storable
from ledger.vocabulary import ExchangeStatus, Reason

_ROWS = text("""
    SELECT e.id, e.policy_id, e.trajectory_id, t.group_id, e.version, e.endpoint, e.status, e.finish_reason, e.untrainable_reason,
        e.turn_type, e.erased_at IS NOT NULL AS is_erased, e.request ->> 'store' = 'false' AS is_unstored,
        e.parent_exchange_id, e.num_shared_tokens, e.num_shared_messages, e.prompt_ids, e.completion_ids, e.messages,
        e.request -> 'tools' AS tools, e.response
    FROM exchanges AS e JOIN trajectories AS t ON t.id = e.trajectory_id
    WHERE e.trajectory_id = ANY (CAST(:ids AS uuid[]))
    ORDER BY e.trajectory_id, e.id
""")
_AT_ONCE = 200  # trajectories
_STATUS = {
    ExchangeStatus.CANCELLED: Reason.CANCELLED,
    ExchangeStatus.FAILED: Reason.FAILED,
    ExchangeStatus.INTERRUPTED: Reason.INTERRUPTED,
}
_SAMPLED_AT_WILL = (None, Reason.GREEDY, Reason.MISSING_LOGPROBS)  # nothing is asked about how it was drawn
CUT_OFF = ("length", "max_tokens", "max_output_tokens")  # as vLLM's chat, messages and responses say it


@dataclass(frozen=True, slots=True)
class Answer:
    """One exchange, whole. `messages`, `tools` and `response` are as they were sent."""

    exchange_id: UUID
    trajectory_id: UUID
    group_id: UUID | None
    version: int | None  # None: another provider answered
    endpoint: str
    status: ExchangeStatus
    finish_reason: str | None
    untrainable_reason: str | None
    is_erased: bool
    is_opted_out: bool
    prompt_ids: list[int] | None
    completion_ids: list[int] | None
    messages: list[Any] | None
    tools: list[Any] | None
    response: Any

    @property
    def is_cut_off(self) -> bool:
        return self.finish_reason in CUT_OFF

    @property
    def defect(self) -> Reason | None:
        """Why nobody may imitate it, whatever is imitated of it."""
        if self.is_erased:
            return Reason.ERASED
        return Reason.OPTED_OUT if self.is_opted_out else None

    @property
    def own_defect(self) -> Reason | None:
        """Why what was answered cannot be learned from; None = it came to its end, and it counts once."""
        if self.defect:
            return self.defect
        if self.status in _STATUS:
            return _STATUS[self.status]
        return Reason.DUPLICATE_RETRY if self.untrainable_reason == Reason.DUPLICATE_RETRY else None

    @property
    def token_defect(self) -> Reason | None:
        """Why its token ids cannot be learned from. Greedy ones can: nothing is asked about how they were drawn."""
        if reason := self.own_defect:
            return reason
        if self.untrainable_reason not in _SAMPLED_AT_WILL:
            return Reason(str(self.untrainable_reason))
        if not self.prompt_ids or self.completion_ids is None:
            return Reason.MISSING_TOKEN_IDS
        return None if self.completion_ids else Reason.EMPTY_COMPLETION


def read_answers(
    connection: Connection, policy_id: UUID, trajectory_ids: Iterable[UUID]
) -> dict[UUID, list[Answer]]:
    """The answers of each trajectory (of this policy) in turn order."""
    ids, found = sorted(set(trajectory_ids)), dict[UUID, list[Answer]]()
    for start in range(0, len(ids), _AT_ONCE):
        rows = connection.execute(_ROWS, {"ids": ids[start : start + _AT_ONCE]}).all()
        for trajectory_id, of in groupby(rows, key=lambda row: row.trajectory_id):
            found[trajectory_id] = _answers(list(of), policy_id)
    return found


def _answers(rows: Sequence[Any], policy_id: UUID) -> list[Answer]:
    whole = zip(rows, whole_prompts(rows), whole_messages(rows), strict=True)
    return [
        Answer(
            exchange_id=row.id,
            trajectory_id=row.trajectory_id,
            group_id=row.group_id,
            version=row.version,
            endpoint=row.endpoint,
            status=ExchangeStatus(row.status),
            finish_reason=row.finish_reason,
            untrainable_reason=row.untrainable_reason,
            is_erased=row.is_erased,
            is_opted_out=_is_opted_out(row),
            prompt_ids=prompt_ids,
            completion_ids=row.completion_ids,
            messages=from_storable(messages),
            tools=from_storable(row.tools),
            response=from_storable(row.response),
        )
        for row, prompt_ids, messages in whole
        if row.policy_id == policy_id
    ]


def _is_opted_out(row: Any) -> bool:
    """An external model's row has its own reason, whatever the caller wished: the wish is read from the request."""
    return bool(row.is_unstored or row.turn_type != "main" or row.untrainable_reason == Reason.OPTED_OUT)
