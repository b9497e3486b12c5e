"""Damage anywhere costs what it touches, and no more; what a file held before is never read."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.identifiers import new_call_id
from ledger.records import CallRecord
from ledger.request_body import derived
from ledger.spool.frames import ACCEPTED, END, FINISHED, Frame, Gap, encode_frame, scan, seed_of
from ledger.spool.spool import Spool, adopt_orphans
from tests.ledger.calls import a_call


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_damage_anywhere_costs_only_the_frames_that_it_touches(data: st.DataObject) -> None:
    frames = [
        encode_frame(FINISHED, new_call_id(), payload)
        for payload in data.draw(st.lists(st.binary(max_size=30), min_size=1, max_size=5))
    ]
    whole = b"".join(frames)
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[at] ^= data.draw(st.integers(1, 255))
    found = list(scan(bytes(damaged), 0, len(damaged)))
    assert [item.start for item in found] + [len(whole)] == [0] + [item.end for item in found]
    touched = next(n for n in range(len(frames)) if at < sum(map(len, frames[: n + 1])))
    kept = [bytes(damaged[item.start : item.end]) for item in found if isinstance(item, Frame)]
    assert kept == frames[:touched] + frames[touched + 1 :]
    assert any(isinstance(item, Gap) for item in found)


def test_frames_of_another_segment_are_not_read() -> None:
    """A file is used again: what it held before lies behind END."""
    now, before = (encode_frame(FINISHED, new_call_id(), b"x", seed_of(number)) for number in (2, 1))
    found = list(scan(now + END + before, 0, len(now + END + before), seed_of(2)))
    assert [item.end for item in found] == [len(now)]


def test_a_torn_end_is_reported() -> None:
    whole = encode_frame(FINISHED, new_call_id(), b"x")
    found = list(scan(whole + whole[:-1], 0, 2 * len(whole) - 1))
    assert [type(item) for item in found] == [Frame, Gap]


def test_frames_after_zeroed_bytes_are_found() -> None:
    """Zeros look like END; what is whole behind them counts all the same."""
    frames = [encode_frame(FINISHED, new_call_id(), b"x" * 20) for _ in range(3)]
    held = frames[0] + bytes(len(frames[1])) + frames[2] + END
    assert [type(item) for item in scan(held, 0, len(held))] == [Frame, Gap, Frame]


@contextmanager
def a_dead_spool(num_calls: int) -> Iterator[tuple[Path, list[CallRecord]]]:
    """All calls were accepted, then all ended: each end refers to its accepted frame."""
    with TemporaryDirectory() as directory:
        spool = Spool.open(Path(directory))
        calls = [
            a_call(raw_request=b'{"messages": ["%d"]}' % k, prompt_key="messages") for k in range(num_calls)
        ]
        for call in calls:
            spool.accept(replace(call, choices=[]))
        for call in calls:
            spool.append([call])
        spool.close()
        yield Path(directory), calls


def damaged(segment: Path, draw: st.DataObject) -> list[Frame]:
    """Flips a byte, or cuts the file off; the frames that this did not touch."""
    held = bytearray(segment.read_bytes())
    frames = [f for f in scan(bytes(held), 0, len(held), seed_of(1)) if isinstance(f, Frame)]
    at = draw.draw(st.integers(0, frames[-1].end - 1))
    if draw.draw(st.booleans()):
        held[at] ^= draw.draw(st.integers(1, 255))
        whole = [frame for frame in frames if not frame.start <= at < frame.end]
    else:
        del held[at:]
        whole = [frame for frame in frames if frame.end <= at]
    segment.write_bytes(held)
    return whole


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_damaged_spool_yields_each_call_once_as_whole_as_its_frames_are(data: st.DataObject) -> None:
    """I4, I10: an end without its request is a row without messages; a call without its end is interrupted."""
    with a_dead_spool(3) as (root, calls):
        (segment,) = root.glob("*/*.segment")
        whole = damaged(segment, data)
        begun = {frame.call_id for frame in whole if frame.kind == ACCEPTED}
        ended = {frame.call_id for frame in whole if frame.kind == FINISHED}
        for orphan in adopt_orphans(root):
            found = {record.call_id: record for record in orphan.records()}
            assert set(found) == begun | ended
            for call in map(derived, calls):
                record = found.get(call.call_id)
                if call.call_id in begun & ended:
                    assert record == call
                elif call.call_id in ended:
                    assert record == replace(call, messages=None, request={}, prompt_key=None)
                elif record is not None:
                    assert (record.status, record.messages) == ("interrupted", call.messages)
            is_cut_between_frames = whole and segment.stat().st_size == whole[-1].end
            assert orphan.directory.num_skipped == (
                0 if is_cut_between_frames or not segment.stat().st_size else 1
            )
