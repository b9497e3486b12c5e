"""bench/faults: what the clients see is written down rightly, and each count can fail."""

import asyncio
import errno
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from bench.faults.__main__ import is_whole
from bench.faults.audit import Audited
from bench.faults.count import Count, Row, count
from bench.faults.disk import FileSizeLimit, Tmpfs, small_disk
from bench.faults.fate import Fate, Sent
from bench.faults.load import Load, Plan
from bench.faults.result import Result, figures_of
from bench.faults.rounds import faults_of
from bench.faults.servers import mock as mock_server
from bench.faults.servers import running
from slipstream.local.ports import free_ports

SENT = [
    Sent("r.0.1", 0, 1, 80, Fate.ANSWERED, is_captured=True),
    Sent("r.0.2", 0, 2, 80, Fate.CUT, is_captured=True),
    Sent("r.0.3", 0, 3, 80, Fate.CANCELLED, is_captured=True),
    Sent("r.1.1", 1, 1, 81, Fate.ABANDONED),
    Sent("r.1.2", 1, 2, 81, Fate.UNANSWERED),
]
ROWS = [
    Row("r.0.1", "t", "completed", is_whole=True),
    Row("r.0.2", "t", "interrupted", is_whole=False),
    Row("r.0.3", "t", "cancelled", is_whole=False),
    Row("r.1.1", "u", "cancelled", is_whole=False),
]
WHOLE = {"exit_code": 0, "told": {"running": 0, "waiting": 0, "lost": 0, "gone": 0, "rejected": 0}}


def test_a_round_in_which_everything_came_is_right() -> None:
    assert count(SENT, ROWS).is_right
    assert count(SENT, [*ROWS, Row("r.1.2", "u", "interrupted", is_whole=False)]).is_right


@pytest.mark.parametrize("missing", [0, 1, 2, 3])
def test_each_row_that_is_due_is_missed(missing: int) -> None:
    found = count(SENT, [row for row in ROWS if row is not ROWS[missing]])
    assert (found.lost, found.is_right) == ([ROWS[missing].request_id], False)


def test_an_abandoned_call_of_a_killed_proxy_may_never_have_arrived() -> None:
    assert count(SENT, ROWS[:3], killed=[81]).is_right


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ([*ROWS, ROWS[0]], "duplicated"),
        ([*ROWS, Row("r.9.9", "t", "completed", is_whole=True)], "unexpected"),
        ([ROWS[0]._replace(is_whole=False), *ROWS[1:]], "broken"),
        ([ROWS[0]._replace(status="interrupted"), *ROWS[1:]], "broken"),
        ([ROWS[1], ROWS[0], *ROWS[2:]], "disordered"),
        ([ROWS[0]._replace(trajectory_id="v"), *ROWS[1:]], "disordered"),
    ],
)
def test_what_is_wrong_is_named(rows: list[Row], what: str) -> None:
    found = count(SENT, rows)
    assert not found.is_right
    assert getattr(found, what)


def test_a_call_that_was_not_captured_needs_no_row() -> None:
    served = replace(SENT[0], is_captured=False)
    assert count([served], [], is_disk_full=True, is_serving=True).is_right
    assert not count([SENT[0]], [], is_disk_full=True, is_serving=True).is_right


def result(found: Count, audited: Audited) -> Result:
    return Result("kill proxy", 0, found, audited, 1.0, {"memory_growth_mib": 2.0})


def test_a_round_is_missed_by_the_count_or_by_the_audit() -> None:
    whole = Audited(**WHOLE)  # type: ignore[arg-type]
    assert result(count(SENT, ROWS), whole).is_met
    assert not result(count(SENT, ROWS[1:]), whole).is_met
    assert not result(count(SENT, ROWS), replace(whole, exit_code=1)).is_met
    assert not result(count(SENT, ROWS), replace(whole, told={**whole.told, "waiting": 1})).is_met
    figures = figures_of([result(count(SENT, ROWS), whole), result(count(SENT, ROWS[1:]), whole)])
    assert (figures["kill_proxy_rounds"], figures["kill_proxy_rounds_met"], figures["client_lost"]) == (
        2,
        1,
        1,
    )


@pytest.mark.parametrize("fate", [Fate.UNANSWERED, Fate.CUT, Fate.REFUSED])
def test_where_no_proxy_was_killed_every_call_is_served(fate: Fate) -> None:
    """I8: nothing is lost by proxies that answer nobody while Postgres is away, and yet it is a miss."""
    served, unserved = SENT[0], replace(SENT[0], fate=fate)
    assert list(faults_of([served], 0, [], is_disk_full=False)) == []
    assert f"1 calls were {fate}" in next(faults_of([served, unserved], 0, [], is_disk_full=False))
    assert list(faults_of([served, unserved], 0, [served.port], is_disk_full=False)) == []


def test_a_full_disk_is_noticed_and_what_it_left_uncaptured_is_known_to_the_audit() -> None:
    refused, uncaptured = replace(SENT[0], fate=Fate.REFUSED), replace(SENT[0], is_captured=False)
    assert list(faults_of([refused], 0, [], is_disk_full=True)) == []
    assert list(faults_of([uncaptured], 1, [], is_disk_full=True)) == []
    assert list(faults_of([uncaptured], 0, [], is_disk_full=True)) == [
        "1 calls were uncaptured, the audit knows of 0"
    ]
    assert list(faults_of([SENT[0]], 0, [], is_disk_full=True)) == ["the disk was never full"]


@pytest.mark.parametrize(
    ("changes", "is_all"),
    [({}, True), ({"rounds": 2}, False), ({"away_seconds": 10.0}, False), ({"only": ["disk"]}, False)],
)
def test_a_run_that_leaves_something_out_is_no_result(changes: dict[str, object], is_all: bool) -> None:
    options = {"rounds": 20, "away_seconds": 180.0, "only": None, **changes}
    assert is_whole(Namespace(**options)) is is_all


def driven(*ports: int) -> list[Sent]:
    async def some() -> list[Sent]:
        load = Load(Plan("r", ports, calls_per_second=40))
        running_load = asyncio.create_task(load.run())
        await asyncio.sleep(2.5)
        load.stop()
        await running_load
        return load.sent

    return asyncio.run(some())


def test_each_call_of_the_load_is_written_down_with_its_fate(mock: str) -> None:
    """The mock captures nothing, and half of what it is asked streams."""
    (nobody,) = free_ports(1)
    sent = driven(int(mock.rpartition(":")[2]), nobody)
    there = [call for call in sent if call.port != nobody]
    assert {call.fate for call in sent if call.port == nobody} == {Fate.UNANSWERED}
    assert {call.fate for call in there} <= {Fate.ANSWERED, Fate.CANCELLED, Fate.ABANDONED}
    assert {call.is_captured for call in there if call.fate is Fate.ANSWERED} == {False}
    assert len({call.request_id for call in sent}) == len(sent) > 60


def test_a_server_is_killed_and_started_again(tmp_path: Path) -> None:
    with running(mock_server(tmp_path)) as server:
        before = server.tree.pids()
        server.kill()
        assert not any(Path(f"/proc/{pid}").exists() for pid in before)
        server.start()
        assert server.tree.pids().isdisjoint(before)


def test_the_small_disk_fills_and_is_freed_again(tmp_path: Path) -> None:
    with running(mock_server(tmp_path)) as server, small_disk(tmp_path / "disk") as disk:
        if isinstance(disk, FileSizeLimit):
            pytest.skip("this machine lets nobody mount: the bench limits the proxy's files instead")
        assert isinstance(disk, Tmpfs)
        disk.fill(server)
        with (
            pytest.raises(OSError, match="No space left") as full,
            (tmp_path / "disk" / "x").open("wb") as file,
        ):
            file.write(b"x" * 100_000)
        assert full.value.errno == errno.ENOSPC
        disk.free(server)
        (tmp_path / "disk" / "y").write_bytes(b"y" * 100_000)


def test_without_a_mount_the_size_of_the_proxys_files_is_limited(tmp_path: Path) -> None:
    with running(mock_server(tmp_path)) as server:
        (pid,) = server.tree.pids()
        disk = FileSizeLimit()
        disk.fill(server)
        assert "65536" in _limit(pid)
        disk.free(server)
        assert "unlimited" in _limit(pid)


def _limit(pid: int) -> str:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line for line in lines if line.startswith("Max file size"))
