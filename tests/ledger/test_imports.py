"""What left as a file comes back as the same rows, once, and brings nobody back who was erased."""

import io
import json
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

from ledger.erasure.erase import begin, erase_some, finish
from ledger.erasure.subject import Subject
from ledger.imports.lines import json_lines
from ledger.policies import ensure_policy
from ledger.reading import read_trajectory
from ledger.vocabulary import ErasureSubject
from tests.ledger.calls import rows
from tests.ledger.exported import FORMATS, ODD, exported, imported, read, seeded
from tests.ledger.learned import fill


@FORMATS
def test_a_round_trip_into_another_database_is_exact(
    engine: Engine, elsewhere: Engine, tmp_path: Path, format_: str
) -> None:
    """Every exported value of every row, but for when it was written and what trained on it."""
    seeded(engine)
    first, second = tmp_path / f"a.{format_}", tmp_path / f"b.{format_}"
    done = exported(engine, first)
    report = imported(elsewhere, first)
    assert (report.num_new, report.num_existing, report.bad_lines) == (done["num_exchanges"], 0, [])
    exported(elsewhere, second)
    came, left = comparable(read(second)), comparable(read(first))
    assert [row["id"] for row in came] == [row["id"] for row in left]
    assert [
        (name, row[name], other[name])
        for row, other in zip(left, came, strict=True)
        for name in row
        if repr(row[name]) != repr(other[name])  # NaN is no NaN
    ] == []


def comparable(exported_rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what belongs to the database: times of writing, steps, and groups that may be trained once more."""
    found = []
    for row in exported_rows:
        own = {
            name: value
            for name, value in row.items()
            if name
            not in ("created_at", "samples", "group_id", "group_state", "group_reason", "adapter_sha256")
        }
        own["rewards"] = [{k: v for k, v in event.items() if k != "created_at"} for event in row["rewards"]]
        found.append(own)
    return json.loads(json.dumps(found, default=str))  # type: ignore[no-any-return]


@FORMATS
def test_a_repeated_import_doubles_nothing(engine: Engine, tmp_path: Path, format_: str) -> None:
    seeded(engine)
    path = tmp_path / f"a.{format_}"
    done = exported(engine, path)
    counts = "SELECT (SELECT count(*) FROM exchanges), (SELECT count(*) FROM reward_events)"
    with engine.connect() as connection:
        before = rows(connection, counts)
    report = imported(engine, path)
    assert (report.num_new, report.num_existing, report.num_rewards) == (0, done["num_exchanges"], 0)
    with engine.connect() as connection:
        assert rows(connection, counts) == before


def test_a_file_goes_into_another_project_as_a_copy_with_its_own_ids(engine: Engine, tmp_path: Path) -> None:
    seeded(engine)
    path = tmp_path / "a.jsonl"
    done = exported(engine, path)
    first = imported(engine, path, project="acme")
    again = imported(engine, path, project="acme")
    assert (first.num_new, again.num_new, again.num_existing) == (
        done["num_exchanges"],
        0,
        done["num_exchanges"],
    )
    assert first.bad_lines == []
    with engine.connect() as connection:
        found = rows(
            connection, "SELECT project, count(*), avg(reward) FROM v1.trajectories GROUP BY 1 ORDER BY 1"
        )
        assert found[0][1:] == found[1][1:]
        copy = read_trajectory(connection, "acme", "talk")
        original = read_trajectory(connection, "default", "talk")
    assert copy
    assert original
    assert [e["prompt_ids"] for e in copy["exchanges"]] == [e["prompt_ids"] for e in original["exchanges"]]


def test_a_version_number_that_means_another_adapter_here_is_not_trained_on(
    engine: Engine, elsewhere: Engine, tmp_path: Path
) -> None:
    """I2."""
    for one, sha in ((engine, "aa"), (elsewhere, "bb")):
        with one.begin() as connection:
            fill(connection)
            connection.execute(
                text("UPDATE policy_versions SET adapter_sha256 = :sha WHERE version = 1"), {"sha": sha}
            )
    path = tmp_path / "a.jsonl"
    exported(engine, path)
    imported(elsewhere, path)
    ids = {row["id"] for row in read(path)}
    with elsewhere.connect() as connection:
        found = rows(connection, "SELECT id, version, untrainable_reason FROM exchanges")
    assert {(version, reason) for id_, version, reason in found if str(id_) in ids} == {
        (0, None), (1, "version_mismatch"),
    }  # fmt: skip


def test_bad_lines_are_told_and_the_others_go_on(engine: Engine, elsewhere: Engine, tmp_path: Path) -> None:
    seeded(engine)
    path = tmp_path / "a.jsonl"
    exported(engine, path)
    lines = path.read_bytes().splitlines()
    broken = json.loads(lines[2])
    bad = [
        lines[0], b"{", b"[1]", json.dumps(broken | {"id": "x"}).encode(),
        json.dumps(broken | {"started_at": None}).encode(),
        json.dumps(broken | {"choice_index": 1 << 40}).encode(), lines[1],
    ]  # fmt: skip
    path.write_bytes(b"\n".join(bad) + b"\n\n")
    report = imported(elsewhere, path)
    assert (report.num_new, report.num_bad, report.num_lines) == (2, 5, 7)
    assert [bad["line"] for bad in report.bad_lines] == [2, 3, 4, 5, 6]


def test_a_dry_run_says_the_same_and_changes_nothing(
    engine: Engine, elsewhere: Engine, tmp_path: Path
) -> None:
    seeded(engine)
    path = tmp_path / "a.jsonl"
    exported(engine, path)
    dry = imported(elsewhere, path, is_dry_run=True)
    with elsewhere.connect() as connection:
        assert rows(connection, "SELECT count(*) FROM exchanges") == [(0,)]
    assert dry.as_json() == imported(elsewhere, path).as_json()


def test_an_import_brings_nobody_back_who_was_erased(
    engine: Engine, elsewhere: Engine, tmp_path: Path
) -> None:
    seeded(engine)
    path = tmp_path / "a.jsonl"
    exported(engine, path)
    subject = Subject(ErasureSubject.USER, ODD)
    for one in (engine, elsewhere):
        with one.begin() as connection:
            ensure_policy(connection, name="default", base_model="base")
            erasure = begin(connection, "default", subject, "test")
            erase_some(connection, erasure)
            report = finish(connection, erasure)
        assert [file["num_exchanges"] for file in report["exports"]] == (
            [len(read(path))] if one is engine else []
        )
        assert imported(one, path).num_erased == 1
        with one.connect() as connection:
            assert rows(connection, "SELECT count(*) FROM exchanges WHERE completion_text LIKE 'a%b%'") == [
                (0,)
            ]
            assert rows(connection, "SELECT count(*) FROM exchanges WHERE erased_at IS NOT NULL") == [(1,)]


def test_an_import_brings_no_trajectory_back_that_was_erased_by_a_name_of_its_callers(
    engine: Engine, elsewhere: Engine, tmp_path: Path
) -> None:
    """Where it was erased there was no row of it, so nothing but the name tells."""
    seeded(engine)
    exported(engine, path := tmp_path / "a.jsonl")
    with elsewhere.begin() as connection:
        ensure_policy(connection, name="default", base_model="base")
        finish(connection, begin(connection, "default", Subject(ErasureSubject.TRAJECTORY, "talk"), "test"))
    num_turns = sum(row["external_id"] == "talk" for row in read(path))
    assert imported(elsewhere, path).num_erased == num_turns > 1


def test_standard_input_and_output_are_files_like_any_other() -> None:
    lines = list(json_lines(io.BytesIO(b'\xef\xbb\xbf{"a": 1}\r\n\n{"b": 2}')))
    assert [(line.number, line.value) for line in lines] == [(1, {"a": 1}), (3, {"b": 2})]
