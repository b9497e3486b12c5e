"""A draft: one exchange on its way into the ledger, with the ids it asks for. Placing it may give it other ones."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

from ledger.errors import LedgerError
from ledger.frozen import dataclass
from ledger.identifiers import choice_id
from ledger.policies import Policy
from ledger.records import CallRecord, ChoiceRecord, prompt_of
from ledger.text import to_name
from ledger.verdict import untrainable_reason
from ledger.vocabulary import ExchangeStatus, IdentifiedBy, Reason


@dataclass(frozen=True, slots=True)
class Draft:
    """Example: choice 1 of call X, external id "run-7" -> id X + 1, name "run-7#1", its own new trajectory id."""

    id: UUID
    wanted_trajectory_id: UUID  # if the name is new
    name: str | None  # the caller's id of the trajectory, storable
    call: CallRecord
    choice: ChoiceRecord
    policy: Policy
    identified_by: IdentifiedBy
    reason: Reason | None
    retry_of: UUID | None = None  # the exchange that it repeats
    erased_at: datetime | None = None  # it is a skeleton (ledger.erasure)

    @property
    def project_id(self) -> UUID:
        return self.policy.project_id

    @property
    def prompt_ids(self) -> Sequence[int] | None:
        return prompt_of(self.call, self.choice)

    @property
    def num_samples(self) -> int:
        """How many choices the call asked for its prompt."""
        return max(1, self.call.num_choices // max(1, self.call.num_prompts))

    @property
    def prompt_index(self) -> int:
        return self.choice.index // self.num_samples if self.call.num_prompts > 1 else 0

    @property
    def num_retries(self) -> int:
        """Without the digest of its body nothing can be told to be a retry of it."""
        return self.call.num_retries if self.call.request_sha256 else 0

    @property
    def request_sha256(self) -> str | None:
        return _digest(self.call.request_sha256)

    @property
    def conversation_sha256(self) -> str | None:
        return _digest(self.choice.conversation_sha256)

    @property
    def continues_sha256(self) -> str | None:
        """A conversation has one next turn: the first choice. The others begin trajectories of their own."""
        return None if self.choice.index else _digest(self.call.attribution.continues_sha256)

    @property
    def is_looking(self) -> bool:
        """Whether the turn that it goes on with is still to be found."""
        return self.identified_by is IdentifiedBy.NEW and self.continues_sha256 is not None

    @property
    def is_turn(self) -> bool:
        """Whether it answered the turn before it: after a failed one, that turn is still open."""
        return self.call.status is ExchangeStatus.COMPLETED and self.call.attribution.turn_type == "main"


def _digest(text: str | None) -> str | None:
    """Hex as Postgres writes a bytea."""
    return f"\\x{text}" if text else None


def drafts_of(calls: Sequence[CallRecord], policies: Sequence[Policy]) -> list[Draft]:
    """One draft per choice in id order; a call that is there twice counts once, finished before interrupted."""
    known = {(policy.project, policy.name): policy for policy in policies}
    once: dict[UUID, CallRecord] = {}
    for call in calls:
        if call.call_id not in once or once[call.call_id].status is ExchangeStatus.INTERRUPTED:
            once[call.call_id] = call
    drafts = (draft for call in once.values() for draft in _drafts_of_call(call, _policy_of(call, known)))
    return sorted(drafts, key=lambda draft: draft.id.int)


def _policy_of(call: CallRecord, known: dict[tuple[str, str], Policy]) -> Policy:
    try:
        return known[call.project, call.policy]
    except KeyError:
        raise LedgerError(
            f"policy {call.policy!r} of project {call.project!r} is not in this database: start a proxy with "
            "SLIPSTREAM_POLICY set to it, which registers it"
        ) from None


def _drafts_of_call(call: CallRecord, policy: Policy) -> Iterator[Draft]:
    external_id = call.attribution.external_id
    for choice in call.choices or [ChoiceRecord(index=0)]:
        suffix = f"#{choice.index}" if choice.index else ""
        yield Draft(
            id=choice_id(call.call_id, choice.index),
            wanted_trajectory_id=wanted_trajectory_id(call, choice.index),
            name=to_name(external_id + suffix) if external_id else None,
            call=call,
            choice=choice,
            policy=policy,
            identified_by=call.attribution.identified_by,
            retry_of=call.retry_of,
            reason=untrainable_reason(call, choice),
        )


def wanted_trajectory_id(call: CallRecord, index: int) -> UUID:
    """The next choices of a call that goes on with a conversation begin new trajectories: its neighbours' ids are taken."""
    is_turn = call.attribution.identified_by is IdentifiedBy.CONVERSATION
    return choice_id(call.call_id if is_turn and index else call.attribution.trajectory_id, index)
