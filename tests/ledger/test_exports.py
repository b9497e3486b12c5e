"""What leaves as a file is whole: prompts, odd text, odd numbers, groups and judgements."""

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine

from ledger.errors import LedgerError
from ledger.exports.columns import COLUMNS
from ledger.exports.export import export, format_of
from ledger.exports.filters import Filters, groups_named
from ledger.exports.rows import export_rows
from ledger.identifiers import new_call_id, time_of
from ledger.policies import ensure_policy
from ledger.recording import record_calls
from tests.ledger.calls import NOW, a_call, a_choice, a_policy, conversation, rows
from tests.ledger.exported import FORMATS, exported, read, seeded

TOKENS = st.lists(st.integers(0, 3), max_size=4)


@FORMATS
def test_every_row_holds_the_whole_prompt(engine: Engine, tmp_path: Path, format_: str) -> None:
    turns = conversation(5)
    with engine.begin() as connection:
        a_policy(connection)
        record_calls(connection, turns)
    path = tmp_path / f"a.{format_}"
    exported(engine, path, Filters(since=None))
    assert [(row["prompt_ids"], row["messages"]) for row in read(path)] == [
        (turn.prompt_ids, turn.messages) for turn in turns
    ]


def test_parquet_has_types_that_its_readers_expect(engine: Engine, tmp_path: Path) -> None:
    seeded(engine)
    exported(engine, tmp_path / "a.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    types = {
        name: str(table.schema.field(name).type)
        for name in ("id", "seed", "prompt_ids", "logprobs", "started_at")
    }
    assert list(types.values()) == [
        "string", "int64", "large_list<element: int32>", "large_list<element: float>", "timestamp[us, tz=UTC]",
    ]  # fmt: skip
    assert table.column_names == list(COLUMNS)


def test_only_what_was_asked_for_is_written(engine: Engine, tmp_path: Path) -> None:
    """Turn 2 of a conversation alone is still whole."""
    with engine.begin() as connection:
        a_policy(connection)
        ensure_policy(connection, name="other", base_model="base", project="acme")
        turns = conversation(3)
        turns[2] = replace(turns[2], version=4, expected_model=None)
        record_calls(
            connection, [*turns, a_call(project="acme", policy="other"), a_call(group="g", temperature=0)]
        )
        group = (
            groups_named(connection, "g", "default")
            if rows(connection, "SELECT 1 FROM groups WHERE key = 'g'")
            else ()
        )
    path = tmp_path / "a.jsonl"

    def ids(**filters: Any) -> int:
        return int(exported(engine, path, Filters(**filters))["num_exchanges"])

    assert ids(version=4) == 1
    assert read(path)[0]["prompt_ids"] == turns[2].prompt_ids
    assert (ids(), ids(project="acme"), ids(policy="other"), ids(is_trainable=True)) == (5, 1, 1, 4)
    assert (ids(project="nobody"), ids(since=NOW.replace(year=2027)), ids(until=NOW.replace(year=2027))) == (
        0,
        0,
        5,
    )
    assert group == ()  # greedy calls join no group
    with engine.connect() as connection, pytest.raises(LedgerError, match=r"v1\.groups"):
        groups_named(connection, "unknown", None)


def test_a_broken_export_never_looks_whole(engine: Engine, tmp_path: Path) -> None:
    seeded(engine)
    path = tmp_path / "a.jsonl"
    exported(engine, path)
    before = path.read_bytes()

    def broken(number: int, _: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(engine, str(path), None, Filters(), requested_by="test", progress=broken)
    assert [p.name for p in tmp_path.iterdir()] == ["a.jsonl"]
    assert path.read_bytes() == before
    with engine.connect() as connection:
        noted = rows(connection, "SELECT num_exchanges IS NULL, finished_at IS NULL FROM exports ORDER BY id")
    assert noted == [(False, False), (True, True)]


@pytest.mark.parametrize(("path", "named"), [("a.csv", None), ("a", None), ("-", "parquet")])
def test_an_unknown_format_is_refused(path: str, named: str | None) -> None:
    with pytest.raises(LedgerError, match=r"jsonl"):
        format_of(path, named)


@FORMATS
def test_memory_does_not_grow_with_what_is_exported(engine: Engine, tmp_path: Path, format_: str) -> None:
    """40 MB of rows, half of them turns of one conversation whose whole prompts are far more."""
    with engine.begin() as connection:
        a_policy(connection)
        said = [{"role": "user", "content": "x" * 20_000}]
        for _ in range(10):
            record_calls(connection, [a_call(messages=said, num_choices=1) for _ in range(100)])
        turns = [replace(turn, messages=[*said, *(turn.messages or [])]) for turn in conversation(300)]
        record_calls(connection, turns)
    tracemalloc.start()
    done = exported(engine, tmp_path / f"a.{format_}")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert done["num_exchanges"] == 1300
    assert peak < 40 << 20 if format_ == "parquet" else peak < 8 << 20


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.booleans(), TOKENS, TOKENS, st.booleans()), min_size=1, max_size=6))
def test_rows_are_what_was_recorded_whatever_is_a_delta_of_what(
    connection: Connection, turns: list[tuple[bool, list[int], list[int], bool]]
) -> None:
    """A law: turns continue or begin anew, messages are repeated or changed, in one batch or in several."""
    a_policy(connection)
    name, transcript, messages, calls = new_call_id().hex + "-", [], [], []  # type: ignore[var-annotated]
    for continues, prompt, answer, is_repeated in turns:
        prompt = (transcript if continues else []) + prompt  # noqa: PLW2901
        messages = (messages if is_repeated else []) + [{"role": "user", "content": str(prompt)}]
        calls.append(
            a_call(external_id=name, prompt_ids=prompt, messages=messages, choices=[a_choice(ids=answer)])
        )
        record_calls(connection, calls[-1:])
        transcript = prompt + answer
    group = Filters(since=time_of(calls[0].call_id))
    found = {row["id"]: row for row in export_rows(connection, group)}
    for call in calls:
        row = found[call.call_id]
        assert json.loads(f"[{row['prompt_ids']}]") == call.prompt_ids
        assert json.loads(row["messages"]) == call.messages
