"""A draft: one exchange on its way into the ledger, with the ids it asks for. Placing it may give it other ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from ledger.errors import LedgerError
from ledger.identifiers import choice_id
from ledger.policies import Policy
from ledger.records import CallRecord, ChoiceRecord
from ledger.text import to_name
from ledger.verdict import untrainable_reason
from ledger.vocabulary import ExchangeStatus, Reason


@dataclass(frozen=True, slots=True)
class Draft:
    """Example: choice 1 of call X, external id "run-7" -> id X + 1, name "run-7#1", its own new trajectory id."""

    id: UUID
    wanted_trajectory_id: UUID  # if the name is new
    name: str | None  # the caller's id of the trajectory, storable
    call: CallRecord
    choice: ChoiceRecord
    policy: Policy
    reason: Reason | None


def drafts_of(calls: Sequence[CallRecord], policies: Sequence[Policy]) -> list[Draft]:
    """One draft per choice in id order; a call that is there twice counts once, finished before interrupted."""
    known = {(policy.project, policy.name): policy for policy in policies}
    once: dict[UUID, CallRecord] = {}
    for call in calls:
        if call.call_id not in once or once[call.call_id].status is ExchangeStatus.INTERRUPTED:
            once[call.call_id] = call
    drafts = (draft for call in once.values() for draft in _drafts_of_call(call, _policy_of(call, known)))
    return sorted(drafts, key=lambda draft: draft.id)


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
            wanted_trajectory_id=choice_id(call.attribution.trajectory_id, choice.index),
            name=to_name(external_id + suffix) if external_id else None,
            call=call,
            choice=choice,
            policy=policy,
            reason=untrainable_reason(call, choice),
        )
