"""An end refers to the request that was accepted: written once, never dropped too early, whole in every order of things."""

import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import SpoolError
from ledger.records import CallRecord
from ledger.request_body import derived
from ledger.spool.spool import Spool
from tests.ledger.calls import a_call, a_choice
from tests.ledger.spools import adopted, segments

TEXT = "a prompt that stands nowhere else"


def a_call_with_body(text: str = TEXT) -> tuple[CallRecord, CallRecord]:
    """As accepted, and as ended."""
    raw = b'{"model": "m", "messages": [{"role": "user", "content": "%b"}]}' % text.encode()
    begun = a_call(messages=None, request={}, raw_request=raw, prompt_key="messages", choices=[])
    return begun, replace(begun, choices=[a_choice()])


def test_the_body_is_written_once_and_read_as_messages_and_request(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    begun, ended = a_call_with_body()
    spool.accept(begun)
    spool.append([ended])
    assert segments(spool.path)[0].read_bytes().count(TEXT.encode()) == 1
    spool.close()
    (record,) = adopted(tmp_path)
    assert record == derived(ended)
    assert record.messages == [{"role": "user", "content": TEXT}]
    assert record.request == {"model": "m"}


def test_a_call_that_was_not_accepted_ends_whole(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    _, ended = a_call_with_body()
    spool.append([ended])
    spool.close()
    assert adopted(tmp_path) == [derived(ended)]


def test_a_running_call_is_interrupted_with_its_messages(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    begun, _ = a_call_with_body()
    spool.accept(begun)
    spool.close()
    assert [(r.status, r.messages) for r in adopted(tmp_path)] == [("interrupted", derived(begun).messages)]


def test_nothing_refers_to_a_segment_that_the_disk_did_not_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I4: an fsync failed; what was in the segment may be gone after a power cut."""
    spool = Spool.open(tmp_path)
    pairs = [a_call_with_body(f"{TEXT} {k}") for k in range(2)]
    for begun, _ in pairs:
        spool.accept(begun)

    def broken(_: int) -> None:
        raise OSError(5, "I/O error")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fdatasync", broken)
        with pytest.raises(SpoolError):
            spool.append([pairs[0][1]])
    spool.append([pairs[1][1]])
    first, second = segments(spool.path)
    assert second.read_bytes().count(TEXT.encode()) == 2
    spool.close()
    first.unlink()
    assert {r.call_id: r.messages for r in adopted(tmp_path)} == {
        begun.call_id: derived(begun).messages for begun, _ in pairs
    }


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["accept", "finish", "commit", "end whole"]), st.integers(0, 9)),
        max_size=30,
    ),
    st.sampled_from([1, 900, 3000]),
    st.sampled_from([0, 2500, 1 << 20]),
)
def test_whatever_is_not_committed_is_whole_after_a_crash(
    doings: list[tuple[str, int]], segment_bytes: int, memory_bytes: int
) -> None:
    """I4: small segments, so that ends refer across them, and files are used again."""
    with TemporaryDirectory() as directory:
        spool = Spool.open(Path(directory), segment_bytes, memory_bytes)
        running: list[tuple[CallRecord, CallRecord]] = []
        waiting: list[CallRecord] = []
        for doing, number in doings:
            if doing == "accept":
                running.append(a_call_with_body(f"{TEXT} {number}"))
                spool.accept(running[-1][0])
            elif doing == "finish" and running:
                _, ended = running.pop(number % len(running))
                spool.append([ended])
                waiting.append(derived(ended))
            elif doing == "end whole":
                waiting.append(derived(a_call_with_body()[1]))
                spool.append([waiting[-1]])
            elif doing == "commit":
                batch = spool.read_batch(number + 1)
                assert batch.records == waiting[: len(batch.records)]
                assert bool(batch.records) == bool(waiting)
                spool.commit(batch)
                del waiting[: len(batch.records)]
            assert spool.num_waiting == len(waiting)
        spool._directory.release()  # as the kernel does when a process dies
        found = adopted(Path(directory))
        assert found[: len(waiting)] == waiting
        assert {(r.call_id, r.status) for r in found[len(waiting) :]} == {
            (begun.call_id, "interrupted") for begun, _ in running
        }
