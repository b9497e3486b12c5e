"""Identification by what was said before: places the calls whose callers did not name a trajectory.

Invariant: calls that are named, or not captured, cost nothing here; nothing waits for Postgres, and for Valkey only
within its limit. What is not found goes into the record, and the ledger looks again.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from ledger.records import CallRecord
from ledger.retries import WINDOW_SECONDS
from ledger.vocabulary import IdentifiedBy
from proxy.conversation.dialects import DIALECTS
from proxy.conversation.digest import Conversation
from proxy.conversation.memory import Memory
from proxy.conversation.recent_calls import RecentCalls, SentCall, sender_of
from proxy.conversation.shared import SharedLists
from proxy.conversation.turn import Lists, Turn
from proxy.conversation.valkey import Valkey
from proxy.metrics import Metrics
from proxy.settings import ProxySettings

_TURNS, _FAILED = b"slipstream:turn:", b"slipstream:failed:"


class Conversations:
    def __init__(self, settings: ProxySettings, valkey: Valkey | None, metrics: Metrics) -> None:
        size = settings.max_remembered_turns
        self._lists = Lists(
            SharedLists(_TURNS, valkey, Memory(size), settings.conversation_seconds),
            SharedLists(_FAILED, valkey, Memory(size), WINDOW_SECONDS),
        )
        self._recent = RecentCalls(size)
        self._found, self._unknown = (metrics.conversations.labels(result) for result in ("found", "unknown"))

    async def place(self, record: CallRecord, body: Mapping[str, Any], *, is_captured: bool) -> Turn:
        """The call with its trajectory, as far as this can be known now."""
        if record.attribution.identified_by is not IdentifiedBy.NEW or not is_captured:
            return Turn(record)
        dialect, sender = DIALECTS.get(record.endpoint), sender_of(record)
        conversation = Conversation(_root(record), dialect.asked(body)) if dialect else None
        digest = conversation.continues if conversation else None
        is_side = record.attribution.turn_type == "side"
        sent = self._repeated(record, sender, digest) or await self._looked_up(record, sender, digest)
        self._recent.add(sender, sent)
        record = _placed(record, sent, digest)
        if is_side:  # it belongs to the conversation, and is no turn of it
            return Turn(record, self._lists, sender=sender, sent=sent)
        taken = digest if sent.identified_by is IdentifiedBy.CONVERSATION else None
        return Turn(record, self._lists, dialect, conversation, taken, sender, sent)

    def _repeated(self, record: CallRecord, sender: bytes, digest: bytes | None) -> SentCall | None:
        """A retry of a call that came to this process: it goes where that went."""
        earlier = self._recent.repeated(sender, record.num_retries) if record.num_retries else None
        if earlier is None:
            return None
        if digest and earlier.identified_by is IdentifiedBy.CONVERSATION:
            self._lists.answered.remove(digest, earlier.trajectory_id)  # it was given back for this retry
        return SentCall(earlier.trajectory_id, earlier.identified_by, record.num_retries)

    async def _looked_up(self, record: CallRecord, sender: bytes, digest: bytes | None) -> SentCall:
        if digest and (found := await self._continued(record, digest)):
            return SentCall(found, IdentifiedBy.CONVERSATION, record.num_retries)
        failed = await self._lists.failed.pop(sender) if record.num_retries else None
        return SentCall(
            failed or record.attribution.trajectory_id, IdentifiedBy.NEW, record.num_retries
        )  # failed: at another proxy

    async def _continued(self, record: CallRecord, digest: bytes) -> UUID | None:
        answered = self._lists.answered
        is_side = record.attribution.turn_type == "side"
        found = await (answered.newest(digest) if is_side else answered.pop(digest))
        (self._found if found else self._unknown).inc()
        return found


def _placed(record: CallRecord, sent: SentCall, digest: bytes | None) -> CallRecord:
    if digest is None and sent.trajectory_id == record.attribution.trajectory_id:
        return record
    is_found = sent.identified_by is IdentifiedBy.CONVERSATION
    attribution = replace(
        record.attribution,
        trajectory_id=sent.trajectory_id,
        identified_by=sent.identified_by,
        continues_sha256=None if is_found or digest is None else digest.hex(),
    )
    return replace(record, attribution=attribution)


def _root(record: CallRecord) -> tuple[str, ...]:
    """Talks of others never meet, nor of another policy, however alike they are."""
    return record.project, str(record.key_id), record.policy, record.attribution.end_user or ""
