"""One call as a turn of its conversation, from when it was placed until the others were told how it ended.

Invariant: an answered turn is continued once. Whoever takes one tells its own answer, or gives the turn back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from ledger.identifiers import choice_id
from ledger.records import CallRecord, ChoiceRecord
from ledger.vocabulary import ExchangeStatus, IdentifiedBy
from proxy.conversation.dialects import Dialect
from proxy.conversation.digest import Conversation
from proxy.conversation.link import Answer
from proxy.conversation.recent_calls import SentCall
from proxy.conversation.shared import SharedLists


@dataclass(frozen=True, slots=True)
class Lists:
    """What all proxies know: the trajectories of answered turns by conversation, those of failed calls by sender."""

    answered: SharedLists
    failed: SharedLists


@dataclass(slots=True)
class Turn:
    """`record` is the call's, with the trajectory that was found. Without the rest it is no turn that others look for."""

    record: CallRecord
    lists: Lists | None = None
    dialect: Dialect | None = None
    conversation: Conversation | None = None
    taken: bytes | None = None  # the digest that it took its trajectory from
    sender: bytes = b""
    sent: SentCall | None = None
    _telling: list[Answer | None] | None = None

    def ended(self, status: ExchangeStatus, choices: list[ChoiceRecord]) -> list[ChoiceRecord]:
        """The choices with their digests. What others may know is on its way when this returns."""
        if self.sent is None or self.lists is None:
            return choices
        self._telling = []
        if status is ExchangeStatus.COMPLETED:
            self.sent.is_answered = True
            return self._tell(self.lists.answered, choices)
        if not self.sent.is_repeated:  # else its retry has what it would give back
            self._give_back(self.lists, self.sent)
        return choices

    async def told(self) -> None:
        """Returns when all proxies can know, or after a bounded wait."""
        for telling in self._telling or ():
            if telling is not None and not telling.done():
                await telling

    def _tell(self, answered: SharedLists, choices: Sequence[ChoiceRecord]) -> list[ChoiceRecord]:
        conversation, dialect = self.conversation, self.dialect
        if conversation is None or dialect is None:
            return list(choices)
        told: list[ChoiceRecord] = []
        alike: dict[bytes, list[UUID]] = {}
        for choice in choices:
            if choice.index not in range(self.record.num_choices):  # nobody asked for it
                told.append(choice)
                continue
            digest = conversation.answered(dialect.answered(choice.response or {}))
            told.append(replace(choice, conversation_sha256=digest.hex()))
            alike.setdefault(digest, []).insert(0, trajectory_of_choice(self.record, choice.index))
        for digest, ids in alike.items():  # of equal choices the first comes last: programs go on with it
            self._push(answered, digest, ids, is_again=self.record.num_retries > 0)
        return told

    def _give_back(self, lists: Lists, sent: SentCall) -> None:
        if self.taken is not None:
            self._push(lists.answered, self.taken, [sent.trajectory_id], is_again=True)
        elif sent.identified_by is IdentifiedBy.NEW:
            self._push(lists.failed, self.sender, [sent.trajectory_id], is_again=True)

    def _push(self, lists: SharedLists, digest: bytes, ids: list[UUID], *, is_again: bool) -> None:
        assert self._telling is not None
        self._telling.append(lists.push(digest, ids, is_again=is_again))


def trajectory_of_choice(record: CallRecord, index: int) -> UUID:
    """Choice 0 is the conversation's next turn; the others begin trajectories of their own, whose ids are theirs."""
    attribution = record.attribution
    is_turn = attribution.identified_by is IdentifiedBy.CONVERSATION
    return choice_id(record.call_id if is_turn and index else attribution.trajectory_id, index)
