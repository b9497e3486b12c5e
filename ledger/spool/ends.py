"""Ended calls as frames: each refers to its accepted frame, or holds the whole call where that cannot be trusted."""

from collections import Counter
from collections.abc import Sequence

from ledger.audit.call_numbers import CallNumbers, Spooled, hour_of
from ledger.codec import answer_pieces, call_pieces
from ledger.records import CallRecord
from ledger.spool.frames import FINISHED, frame_head
from ledger.spool.orphans import interrupted
from ledger.spool.running import RunningCalls


def numbered(records: Sequence[CallRecord], running: RunningCalls, numbers: CallNumbers) -> list[Spooled]:
    """With the number that each was accepted with; where it could not be accepted, the next that is free."""
    num_new: Counter[int] = Counter()
    found = []
    for record in records:
        number = running.number_of(record.call_id)
        if number is None:
            number = numbers.following(record.call_id) + num_new[hour_of(record.call_id)]
            num_new[hour_of(record.call_id)] += 1
        found.append(Spooled(record, number))
    return found


def given_up(records: Sequence[CallRecord], running: RunningCalls) -> list[Spooled]:
    """Their ends cannot be written: what was accepted of them, as interrupted."""
    accepted = [running.accepted(record.call_id) for record in records]
    return [Spooled(interrupted(found.record), found.number) for found in accepted if found]


def end_frame(spooled: Spooled, running: RunningCalls, seed: int) -> list[bytes]:
    """In pieces. Raises what UNENCODABLE lists."""
    record, number = spooled
    assert number is not None
    place = running.place_of_request(record)
    payload = call_pieces(record, number=number) if place is None else answer_pieces(record, place, number)
    return [frame_head(FINISHED, record.call_id, payload, seed), *payload]
