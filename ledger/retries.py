"""Which call an SDK's retry repeats, and which of them is the sample. Pure, so the order of arrival decides nothing.

A *sending* is one of the calls that carried the same body with the same key. Marked ones (a count above 0) repeat an
earlier one, each at most once; unmarked ones are samples of their own, however alike they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

WINDOW_SECONDS = 900


@dataclass(frozen=True, slots=True)
class SentExchange:
    """One choice of a sending, as it stands, or as it is about to be written."""

    exchange_id: UUID
    trajectory_id: UUID
    is_trainable: bool
    is_untagged: bool  # the caller did not name its trajectory


@dataclass(frozen=True, slots=True)
class Sending:
    """Example: the SDK's second attempt, answered to its end -> num_retries 1, is_completed."""

    call_id: UUID
    num_retries: int
    is_completed: bool
    is_delivered: bool
    is_taken: bool  # a step trained from it, or is about to
    exchanges: tuple[SentExchange, ...]

    def choice(self, index: int) -> SentExchange | None:
        wanted = UUID(int=self.call_id.int + index)
        return next((one for one in self.exchanges if one.exchange_id == wanted), None)


def link(known: Iterable[Sending], new: Iterable[Sending], before: Mapping[UUID, UUID]) -> dict[UUID, UUID]:
    """Call -> the call that it repeats, for a family: `before`, with the new ones put where they belong.

    Example: calls 1 and 3 with counts 0 and 2 are linked {3: 1}; call 2 with count 1 comes -> {2: 1, 3: 2}.
    """
    links, family = dict(before), list(known)
    for sending in sorted(new, key=lambda one: one.call_id):
        after = {earlier: later for later, earlier in links.items()}
        earlier = _repeated_by(sending, family, after)
        later = after.get(earlier) if earlier else _repeating(sending, family, links)
        if earlier:
            links[sending.call_id] = earlier
        if later:
            links[later] = sending.call_id
        family.append(sending)
    return links


def _repeated_by(sending: Sending, family: Iterable[Sending], after: Mapping[UUID, UUID]) -> UUID | None:
    """The latest earlier one; rather the attempt just before, and rather one whose answer did not arrive."""
    by_id = {one.call_id: one for one in family}
    fitting = [
        one
        for one in by_id.values()
        if _may_follow(one, sending)
        and (
            one.call_id not in after
            or (after[one.call_id] in by_id and _may_follow(sending, by_id[after[one.call_id]]))
        )
    ]
    if not fitting:
        return None
    return max(
        fitting,
        key=lambda one: (
            one.num_retries == sending.num_retries - 1,
            not (one.is_completed and one.is_delivered),
            one.call_id,
        ),
    ).call_id


def _repeating(sending: Sending, family: Iterable[Sending], links: Mapping[UUID, UUID]) -> UUID | None:
    """The first later retry that was recorded before the call which it repeats."""
    orphans = (one.call_id for one in family if one.call_id not in links and _may_follow(sending, one))
    return min(orphans, default=None)


def _may_follow(earlier: Sending, later: Sending) -> bool:
    milliseconds = (later.call_id.int >> 80) - (earlier.call_id.int >> 80)
    is_later = earlier.call_id < later.call_id and milliseconds <= WINDOW_SECONDS * 1000
    return is_later and earlier.num_retries < later.num_retries


def duplicates(sendings: Iterable[Sending], links: Mapping[UUID, UUID]) -> set[UUID]:
    """Calls that are no samples: all of a chain but the last that was answered to its end, which the client read.

    What a step has taken stays a sample; then the others are none.
    """
    by_id = {one.call_id: one for one in sendings}
    repeated = set(links.values())
    found: set[UUID] = set()
    for last in by_id.keys() - repeated:
        chain = [by_id[id_] for id_ in [*chain_before(last, links), last] if id_ in by_id]
        kept = _sample_of(chain)
        found |= {one.call_id for one in chain if kept and one is not kept and not one.is_taken}
    return found


def chain_before(call_id: UUID, links: Mapping[UUID, UUID]) -> list[UUID]:
    """The calls that it repeats, first to last."""
    chain: list[UUID] = []
    while call_id in links:
        call_id = links[call_id]
        chain.append(call_id)
    return chain[::-1]


def _sample_of(chain: Sequence[Sending]) -> Sending | None:
    taken = [one for one in chain if one.is_taken]
    completed = [one for one in chain if one.is_completed]
    return taken[0] if taken else completed[-1] if completed else None
