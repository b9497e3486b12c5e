"""What an erasure cannot undo it lists: versions that learned from the words, files that hold a copy of them."""

import threading
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection, Engine, text

from ledger.erasure.erase import begin, erase_some
from ledger.erasure.subject import Subject
from ledger.exports.export import export
from ledger.exports.filters import Filters
from ledger.recording import record_calls
from ledger.records import CallRecord
from ledger.vocabulary import ErasureSubject
from tests.ledger.calls import a_policy, conversation, rows
from tests.ledger.learned import fill
from tests.ledger.test_erasure import ANNA, MARK, a_marked_call, erase


def test_the_versions_that_were_trained_on_it_are_listed(connection: Connection) -> None:
    """Choice 1 was too long for the step, so three of the four taught version 1."""
    _, trained = fill(connection)
    name = str(trained.attribution.trajectory_id)
    report = erase(connection, Subject(ErasureSubject.TRAJECTORY, name))
    assert report["versions"] == [
        {"policy": "default", "version": 1, "step_state": "published", "is_live": True, "num_exchanges": 1}
    ]
    assert rows(connection, "SELECT count(*), count(advantage) FROM step_samples") == [(4, 4)]


def shared_turns() -> list[CallRecord]:
    """In one session, a turn of anna and then one of bob, whose prompt begins with hers. Versions 3 and 4."""
    first, second = conversation(2)
    return [replace(first, request={"user": "anna"}), replace(second, request={"user": "bob"}, version=4)]


def test_a_step_that_learned_from_an_answer_to_it_is_listed(connection: Connection) -> None:
    """A sample of the step is made bob's turn: anna's words stand in its prompt."""
    fill(connection)
    turns = [
        replace(turn, attribution=replace(turn.attribution, external_id="two")) for turn in shared_turns()
    ]
    record_calls(connection, turns)
    connection.execute(
        text("UPDATE step_samples SET exchange_id = :id WHERE exchange_id = (SELECT exchange_id FROM step_samples WHERE is_used LIMIT 1)"),
        {"id": turns[1].call_id},
    )  # fmt: skip
    report = erase(connection, Subject(ErasureSubject.USER, "anna"))
    assert [(row["version"], row["num_exchanges"]) for row in report["versions"]] == [(1, 1)]


def written(engine: Engine, path: Path, filters: Filters | None = None) -> str:
    export(engine, str(path), None, filters or Filters(), requested_by="test", progress=lambda *_: None)
    return path.read_text()


def test_an_export_of_turns_that_followed_it_is_listed(engine: Engine, tmp_path: Path) -> None:
    """Every row of an export holds the whole conversation up to it."""
    with engine.begin() as connection:
        a_policy(connection)
        record_calls(connection, shared_turns())
    assert "question 0" in written(engine, tmp_path / "a.jsonl", Filters(version=4))
    with engine.begin() as connection:
        report = erase(connection, Subject(ErasureSubject.USER, "anna"))
    assert [file["num_exchanges"] for file in report["exports"]] == [1]


def test_an_export_that_begins_in_the_middle_of_an_erasure_is_listed_or_holds_nothing(
    engine: Engine, tmp_path: Path
) -> None:
    """It reads as of its beginning, when the erasure of these rows is not committed yet."""
    with engine.begin() as connection:
        a_policy(connection)
        record_calls(connection, [a_marked_call()])
    found: list[str] = []
    exporting = threading.Thread(target=lambda: found.append(written(engine, tmp_path / "a.jsonl")))
    with engine.connect() as eraser, eraser.begin():
        erasure = begin(eraser, "default", ANNA, "test")
        erase_some(eraser, erasure)
        exporting.start()
        exporting.join(1)
    exporting.join(10)
    with engine.connect() as connection:
        [(listed,)] = rows(connection, "SELECT report -> 'exports' FROM erasures")
    assert listed or MARK not in found[0]
