"""I4: power loss. What was never fsynced may be there, or half there, or not at all; what was confirmed is there.

`Disk` notes what each fsync made durable; a cut leaves a directory as a disk might: each file as it was at its last
fsync, and of what came after it some bytes and not others.
"""

import os
import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.records import CallRecord
from ledger.request_body import derived
from ledger.spool.spool import Spool
from tests.ledger.calls import a_choice
from tests.ledger.spools import adopted
from tests.ledger.test_spool_references import a_call_with_body

_BLOCK = 512  # what a disk writes whole, or not
_DOINGS = st.lists(st.tuples(st.sampled_from(["accept", "finish", "commit"]), st.integers(0, 9)), max_size=25)


class Disk:
    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self._durable: dict[int, bytes] = {}  # inode -> content
        patched.setattr(os, "fdatasync", self._note)

    def _note(self, file: int) -> None:
        path = Path(f"/proc/self/fd/{file}").readlink()
        self._durable[os.fstat(file).st_ino] = path.read_bytes()

    def cut(self, spool: Path, after: Path, chance: random.Random) -> None:
        """`after` is the spool as it is found when the power is back. The order of its blocks on the disk was anybody's."""
        after.mkdir(parents=True)
        for path in spool.iterdir():
            durable, written = self._durable.get(path.stat().st_ino, b""), path.read_bytes()
            blocks = range(0, max(len(durable), len(written)), _BLOCK)
            kept = [(written if chance.random() < 0.5 else durable)[at : at + _BLOCK] for at in blocks]
            (after / path.name).write_bytes(b"".join(part.ljust(_BLOCK, b"\0") for part in kept))
        (after / "cursor").unlink(missing_ok=True)
        if chance.random() < 0.5:
            (after / "cursor").write_bytes(
                (spool / "cursor").read_bytes() if (spool / "cursor").exists() else b""
            )


@settings(deadline=None, max_examples=80)
@given(_DOINGS, st.sampled_from([1, 900, 3000]), st.integers(0, 1 << 30))
def test_i4_what_was_confirmed_survives_a_power_cut(
    doings: list[tuple[str, int]], segment_bytes: int, seed: int
) -> None:
    """I4: whole, with its request, once; and nothing is made up."""
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patched:
        disk, root = Disk(patched), Path(directory)
        spool = Spool.open(root / "before", segment_bytes, 0)
        running: list[tuple[CallRecord, CallRecord]] = []
        begun: list[CallRecord] = []
        confirmed: list[CallRecord] = []
        for doing, number in doings:
            if doing == "accept":
                running.append(a_call_with_body(f"text {number}"))
                begun.append(running[-1][0])
                spool.accept(running[-1][0])
            elif doing == "finish" and running:
                began, _ = running.pop(number % len(running))
                ended = replace(began, choices=[a_choice()])
                spool.append([ended])
                confirmed.append(derived(ended))
            elif doing == "commit":
                batch = spool.read_batch(number + 1)
                spool.commit(batch)
                del confirmed[: len(batch.spooled)]
        disk.cut(spool.path, root / "after" / spool.path.name, random.Random(seed))
        spool._directory.release()
        found = {record.call_id: record for record in adopted(root / "after")}
    assert [found.get(call.call_id) for call in confirmed] == confirmed
    assert found.keys() <= {call.call_id for call in begun}
