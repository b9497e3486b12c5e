"""The audit finds exactly what is missing: ADR 0010's table of failures, on a real spool and a real Postgres."""

import shutil
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from ledger.audit.call_numbers import Spooled
from ledger.audit.capture import Report
from ledger.audit.evidence import Audit
from ledger.audit.evidence import audit as audit_ledger
from ledger.audit.rejected import rejected_paths, replay, set_aside
from ledger.policies import ensure_policy
from ledger.recording import record_calls
from ledger.recording_session import RecordingSession
from ledger.records import CallRecord
from ledger.retention import set_retention
from ledger.spool.spool import Spool, adopt_orphans
from ledger.upkeep import apply_retention
from tests.ledger.calls import a_call, a_choice, a_policy
from tests.ledger.spools import segments


class Capture:
    """A proxy process as far as its calls go: a spool, and a session that commits what it holds."""

    def __init__(self, engine: Engine, root: Path) -> None:
        self.engine, self.root = engine, root
        self.spool = Spool.open(root, segment_bytes=1)
        self.session = RecordingSession(engine)
        with engine.begin() as connection:
            a_policy(connection)

    def accept(self, count: int) -> list[CallRecord]:
        calls = [a_call(choices=[]) for _ in range(count)]
        for call in calls:
            self.spool.accept(call)
        return calls

    def end(self, calls: list[CallRecord]) -> None:
        self.spool.append([replace(call, choices=[a_choice()]) for call in calls])

    def commit(self, *, moves_cursor: bool = True) -> None:
        batch = self.spool.read_batch(100)
        self.write(self.spool.path.name, batch.spooled)
        if moves_cursor:
            self.spool.commit(batch)

    def write(self, process: str, spooled: list[Spooled], *, is_ended: bool = False) -> None:
        report = (
            Report(process, self.root).commit(spooled).accept(self.spool.accepted() if not is_ended else {})
        )
        self.session.record([record for record, _ in spooled], report.question(is_ended=is_ended))

    def die(self) -> None:
        self.spool._directory.release()
        self.session.rest()

    def adopt(self) -> None:
        for orphan in adopt_orphans(self.root):
            self.write(orphan.process, list(orphan.spooled()), is_ended=True)
            orphan.remove()

    def audit(self) -> Audit:
        return audit_ledger(self.engine, self.root, 24)

    def counts(self) -> tuple[int, int, int, int, int]:
        """Accepted, committed, running, waiting, lost."""
        hours = self.audit().hours
        sums = [(h.num_accepted, len(h.committed), h.num_running, h.num_waiting, len(h.lost)) for h in hours]
        a, c, r, w, lost = (sum(column) for column in zip(*sums, strict=True))
        return a, c, r, w, lost


@pytest.fixture
def capture(engine: Engine, tmp_path: Path) -> Iterator[Capture]:
    capture = Capture(engine, tmp_path / "spool")
    yield capture
    capture.session.rest()


def test_a_living_process_runs_waits_and_commits(capture: Capture) -> None:
    calls = capture.accept(5)
    assert capture.counts() == (5, 0, 5, 0, 0)
    capture.end(calls[:3])
    assert capture.counts() == (5, 0, 2, 3, 0)
    capture.commit()
    assert capture.counts() == (5, 3, 2, 0, 0)
    found = capture.audit()
    assert found.is_whole
    assert [(row.num_committed, row.num_rows) for row in found.rows] == [(3, 3)]
    assert [hour.num_spooled for hour in found.hours] == [3]


def test_i4_a_kill_between_commit_and_cursor_counts_once(capture: Capture) -> None:
    """I4: and running calls are committed as interrupted."""
    calls = capture.accept(4)
    capture.end(calls[:3])
    capture.commit(moves_cursor=False)
    capture.die()
    assert capture.counts() == (4, 3, 1, 0, 0)  # before anybody came
    capture.adopt()
    capture.adopt()
    assert capture.counts() == (4, 4, 0, 0, 0)
    assert [(hour.num_spooled, hour.num_interrupted) for hour in capture.audit().hours] == [(3, 1)]


def test_a_directory_removed_by_hand_is_a_gap_that_names_its_calls(capture: Capture) -> None:
    calls = capture.accept(4)
    capture.end(calls[:2])
    capture.commit()
    capture.accept(1)
    capture.write(capture.spool.path.name, [])  # what the writer says of running calls
    shutil.rmtree(capture.spool.path)
    (hour,) = capture.audit().hours
    assert list(hour.lost) == [3, 4, 5]
    assert not capture.audit().is_whole


def test_damage_to_both_frames_of_a_call_is_a_gap(capture: Capture) -> None:
    """One segment a frame: 1 and 2 are accepted, the third and fourth hold their ends, the fifth call 3."""
    for call in capture.accept(2):
        capture.end([call])
    capture.accept(1)
    capture.die()
    for segment in segments(capture.spool.path)[1:4:2]:
        held = segment.read_bytes()
        segment.write_bytes(held[:60] + b"\xff\xff" + held[62:])
    capture.adopt()
    (hour,) = capture.audit().hours
    assert (hour.num_accepted, list(hour.lost)) == (3, [2])
    assert capture.audit().found.corrupt


def test_rows_deleted_by_hand_are_gone(capture: Capture) -> None:
    calls = capture.accept(2)
    capture.end(calls)
    capture.commit()
    with capture.engine.begin() as connection:
        connection.execute(text("DELETE FROM exchanges WHERE id = :id"), {"id": calls[0].call_id})
    found = capture.audit()
    assert (found.num_lost, found.num_gone, found.is_whole) == (0, 1, False)
    with capture.engine.begin() as connection:  # retention drops whole months, and that is no gap
        connection.execute(text(f"DROP TABLE exchanges_{datetime.now(UTC):%Y_%m}"))
    assert capture.audit().is_whole


def test_rows_that_retention_removed_are_no_gap(capture: Capture) -> None:
    """Another policy keeps its rows of the month, so the partition stays and rows went out of it."""
    calls = capture.accept(2)
    capture.end(calls)
    capture.commit()
    in_a_year = datetime.now(UTC) + timedelta(days=365)
    with capture.engine.begin() as connection:
        ensure_policy(connection, name="other", base_model="base")
        record_calls(connection, [a_call(policy="other")])
        set_retention(connection, "default", "default", 30)
    with capture.engine.connect() as connection:
        removed, _ = apply_retention(connection, in_a_year)
    assert [
        (one.num_rows, one.is_dropped) for one in removed if one.table == "exchanges" and one.num_rows
    ] == [(2, False)]
    found = capture.audit()
    assert (found.num_lost, found.num_gone, found.is_whole) == (0, 0, True)


def test_a_rejected_record_is_a_gap_until_it_is_replayed_and_lost_without_its_file(capture: Capture) -> None:
    calls = capture.accept(1)
    capture.end(calls)
    (spooled,) = capture.spool.read_batch(1).spooled
    path = set_aside(capture.root, capture.spool.path.name, spooled, ValueError())
    capture.session.record([], Report(capture.spool.path.name, capture.root).reject(spooled).question())
    capture.spool.commit(capture.spool.read_batch(1))
    assert capture.counts() == (1, 0, 0, 0, 0)
    assert (capture.audit().num_rejected, capture.audit().is_whole) == (1, False)
    held = path.read_bytes()
    path.unlink()
    assert capture.counts() == (1, 0, 0, 0, 1)
    path.write_bytes(held)
    assert replay(rejected_paths(capture.root), capture.root, capture.session) == {"committed": 1}
    assert capture.counts() == (1, 1, 0, 0, 0)
    assert capture.audit().is_whole
    assert not path.exists()


def test_what_is_refused_again_stays_and_stops_no_other(capture: Capture) -> None:
    with capture.engine.begin() as connection:
        connection.execute(text("ALTER TABLE exchanges ADD CHECK (seed IS DISTINCT FROM 5)"))
    for k, seed in enumerate((5, 6)):
        set_aside(capture.root, "1-a", Spooled(a_call(seed=seed), k + 1), ValueError())
    (capture.root / "rejected" / "x.json").write_bytes(b"no call")
    results = replay(rejected_paths(capture.root), capture.root, capture.session)
    assert results == {"committed": 1, "refused": 2}
    assert len(rejected_paths(capture.root)) == 2
    assert capture.audit().num_rejected == 2


def test_a_rejected_file_that_another_process_commits_meanwhile_stops_no_start(capture: Capture) -> None:
    """It is listed, and gone when it is looked at: a name without a file stands for it."""
    kept = set_aside(capture.root, "1-a", Spooled(a_call(), 1), ValueError())
    gone = kept.with_name("gone.call")
    gone.symlink_to("nowhere")
    assert rejected_paths(capture.root) == [gone, kept]
    assert replay([gone], capture.root, capture.session) == {}


def test_without_postgres_no_rejected_file_is_touched(capture: Capture, tmp_path: Path) -> None:
    from ledger.database import sync_engine

    set_aside(capture.root, "1-a", Spooled(a_call(), 1), ValueError())
    engine = sync_engine("postgresql://nobody@127.0.0.1:1/x")
    with pytest.raises(Exception, match="refused"):
        replay(rejected_paths(capture.root), capture.root, RecordingSession(engine))
    engine.dispose()
    assert len(rejected_paths(capture.root)) == 1


def test_a_process_that_another_machine_ran_is_not_judged_by_this_spool(
    capture: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    capture.accept(2)
    with monkeypatch.context() as there:
        there.setattr(socket, "gethostname", lambda: "there")
        capture.write(capture.spool.path.name, [])
    (hour,) = audit_ledger(capture.engine, tmp_path / "another", 24).hours
    assert (hour.num_elsewhere, len(hour.lost)) == (2, 0)
