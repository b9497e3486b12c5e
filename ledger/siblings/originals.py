"""The original of a sibling run, as it was asked, and a sibling as the call that is recorded.

Invariant: a sibling says the user that its original says, so that whoever erases that user erases it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.policies import Policy
from ledger.recording import record_calls
from ledger.records import Attribution, CallRecord, ChoiceRecord
from ledger.siblings.runs import SiblingRun
from ledger.text import from_storable, from_storable_text
from ledger.vocabulary import ExchangeStatus, IdentifiedBy, SiblingReason

_READ = text("""
    SELECT e.endpoint, e.messages, e.request, e.prompt_ids, e.version, e.temperature, e.top_p, e.top_k, e.max_tokens,
        e.is_explored, t.end_user, t.erased_at IS NOT NULL OR e.erased_at IS NOT NULL AS is_erased
    FROM exchanges AS e JOIN trajectories AS t ON t.id = e.trajectory_id
    WHERE e.id = :exchange_id AND t.id = :trajectory_id
""")
_STATE = text("""
    SELECT sibling.group_id IS NOT NULL AS is_member, original.erased_at IS NOT NULL AS is_erased,
        EXISTS (
            SELECT FROM exchanges AS e WHERE e.trajectory_id = sibling.id AND e.is_trainable
        ) AS is_trainable
    FROM trajectories AS sibling
    LEFT JOIN trajectories AS original ON original.id = :trajectory_id
    WHERE sibling.id = :sibling_id
""")
_IS_WANTED = text("""
    SELECT t.erased_at IS NOT NULL AS is_erased, g.id IS NOT NULL AS is_member
    FROM trajectories AS t LEFT JOIN groups AS g ON g.id = t.group_id AND g.id = :group_id AND g.state = 'open'
    WHERE t.id = :trajectory_id
""")
_SAME_ROUTE = text("""
    UPDATE trajectories AS sibling SET route = original.route FROM trajectories AS original
    WHERE sibling.id = :sibling_id AND original.id = :trajectory_id AND sibling.route IS DISTINCT FROM original.route
""")
_USERS = ("user", "safety_identifier")


@dataclass(frozen=True, slots=True)
class Original:
    """Values as the client sent them; `temperature` and what follows it as applied."""

    endpoint: str
    messages: list[Any] | None
    request: dict[str, Any]
    prompt_ids: list[int]
    version: int
    temperature: float | None
    top_p: float | None
    top_k: int | None
    max_tokens: int | None
    is_explored: bool
    end_user: str | None


@dataclass(frozen=True, slots=True)
class Sampled:
    """What a server answered, and when it was asked. `model`: the name that it was asked by."""

    version: int
    model: str
    answered_model: str | None
    prompt_ids: Sequence[int]
    choice: ChoiceRecord
    started_at: datetime
    total_seconds: float

    @property
    def num_tokens(self) -> int:
        return len(self.prompt_ids) + len(self.choice.completion_ids or ())


class UnwantedError(Exception):
    """The sibling is of no use, for the reason that it carries: the transaction must not be committed."""

    def __init__(self, reason: SiblingReason) -> None:
        super().__init__(reason)
        self.reason = reason


def read_original(connection: Connection, run: SiblingRun) -> Original:
    """Raises UnwantedError where it is gone."""
    values = {"exchange_id": run.exchange_id, "trajectory_id": run.trajectory_id}
    row = connection.execute(_READ, values).one_or_none()
    if row is None or row.is_erased or not row.prompt_ids or row.version is None:
        raise UnwantedError(SiblingReason.ERASED)
    found = dict(row._mapping)  # noqa: SLF001 - public, despite its underscore
    del found["is_erased"]
    found["messages"], found["request"] = from_storable(row.messages), from_storable(row.request) or {}
    found["end_user"] = row.end_user and from_storable_text(row.end_user)
    return Original(**found)


def check_wanted(connection: Connection, run: SiblingRun) -> None:
    """Before anything is spent. Raises UnwantedError where a sibling would be of no use by now."""
    given = {"trajectory_id": run.trajectory_id, "group_id": run.group_id}
    state = connection.execute(_IS_WANTED, given).one_or_none()
    if state is None or state.is_erased:
        raise UnwantedError(SiblingReason.ERASED)
    if not state.is_member:
        raise UnwantedError(SiblingReason.GROUP_CLOSED)


def record_sibling(connection: Connection, run: SiblingRun, policy: Policy, call: CallRecord) -> None:
    """Writes the sibling, first in its transaction. Raises UnwantedError if it is of no use by now."""
    record_calls(connection, [call], policies=[policy])
    given = {"sibling_id": call.call_id, "trajectory_id": run.trajectory_id}
    connection.execute(_SAME_ROUTE, given)
    state = connection.execute(_STATE, given).one()
    if state.is_erased is not False:
        raise UnwantedError(SiblingReason.ERASED)
    if not state.is_trainable:
        raise UnwantedError(SiblingReason.UNTRAINABLE)
    if not state.is_member:
        raise UnwantedError(SiblingReason.GROUP_CLOSED)


def sibling_call(
    run: SiblingRun,
    policy: Policy,
    original: Original,
    sampled: Sampled,
    *,
    sibling_id: UUID,
    request: dict[str, Any],
) -> CallRecord:
    """`request`: the body that was sent, without the messages."""
    return CallRecord(
        call_id=sibling_id,
        project=policy.project,
        policy=policy.name,
        version=sampled.version,
        attribution=Attribution(sibling_id, IdentifiedBy.NEW, end_user=original.end_user),
        request_id=sibling_id.hex,
        endpoint=original.endpoint,
        is_streamed=False,
        requested_model=policy.name,
        messages=original.messages,
        request={**request, **_said_users(original.request)},
        started_at=sampled.started_at,
        status=ExchangeStatus.COMPLETED,
        answered_model=sampled.answered_model,
        expected_model=sampled.model,
        prompt_ids=sampled.prompt_ids,
        num_prompt_tokens=len(sampled.prompt_ids),
        temperature=original.temperature,
        top_p=original.top_p,
        top_k=original.top_k,
        max_tokens=request.get("max_tokens"),
        total_seconds=sampled.total_seconds,
        choices=[sampled.choice],
        is_explored=original.is_explored,
        is_shadow=True,
        group_id=run.group_id,
    )


def _said_users(request: dict[str, Any]) -> dict[str, Any]:
    said = {name: request[name] for name in _USERS if name in request}
    metadata = request.get("metadata")
    if isinstance(metadata, dict) and "user_id" in metadata:
        said["metadata"] = {"user_id": metadata["user_id"]}
    return said
