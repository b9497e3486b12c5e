"""What leaves as a file comes back as the same rows: whole prompts, odd text, odd numbers, groups and judgements."""

import io
import json
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, text

from ledger.database import database_address, sync_engine
from ledger.erasure.erase import begin, erase_some, finish
from ledger.erasure.subject import Subject
from ledger.errors import LedgerError
from ledger.exports.columns import COLUMNS
from ledger.exports.export import export, format_of
from ledger.exports.filters import Filters, groups_named
from ledger.exports.rows import export_rows
from ledger.identifiers import new_call_id, time_of
from ledger.imports.file import Importer
from ledger.imports.lines import Line, json_lines, parquet_lines
from ledger.imports.report import Report
from ledger.policies import ensure_policy
from ledger.reading import read_trajectory
from ledger.recording import record_calls
from ledger.rewards import RewardPost, post_reward
from ledger.vocabulary import ErasureSubject, ExchangeStatus, Reason
from tests.conftest import drop_database, new_database
from tests.ledger.calls import NOW, a_call, a_choice, a_policy, conversation, n_call, rows, sent
from tests.ledger.learned import fill

ODD = "a\x00b\ud800c\x1ad\U0001f600 \u2028 é"
TOKENS = st.lists(st.integers(0, 3), max_size=4)
FORMATS = pytest.mark.parametrize("format_", ["jsonl", "parquet"])


@pytest.fixture
def elsewhere(administrator: Connection, template_url: str) -> Any:
    """Another database."""
    url = new_database(administrator, str(database_address(template_url).database))
    engine = sync_engine(url)
    yield engine
    engine.dispose()
    drop_database(administrator, url)


def exported(engine: Engine, path: Path, filters: Filters | None = None) -> dict[str, Any]:
    return export(
        engine, str(path), None, filters or Filters(), requested_by="test", progress=lambda *_: None
    )


def read(path: Path) -> list[dict[str, Any]]:
    return [line.value for line in lines_of(path) if isinstance(line.value, dict)]


def lines_of(path: Path) -> list[Line]:
    if path.suffix == ".parquet":
        return list(parquet_lines(path))
    with path.open("rb") as file:
        return list(json_lines(file))


def imported(engine: Engine, path: Path, **target: Any) -> Report:
    return Importer(engine, **target).run(lines_of(path), lambda: None)


def odd_call() -> Any:
    odd = {"text": ODD, "nan": math.nan, "inf": [math.inf, -math.inf], "big": 1 << 70, "null": None, ODD: 0.1}
    return a_call(
        external_id=ODD.replace("\x00", ""),
        messages=[{"role": "user", "content": ODD, "extra": odd}],
        request={"user": ODD, "metadata": {"k": ODD}, "odd": odd},
        temperature=math.nan,
        seed=(1 << 63) - 1,
        client_name=ODD,
        error={"message": ODD},
        prompt_ids=[0, (1 << 31) - 1],
        choices=[a_choice(text=ODD, response={"message": {"content": ODD, "odd": odd}},
                          sampling_logprobs=[math.nan, -math.inf, -1e-30])],
    )  # fmt: skip


def seeded(engine: Engine) -> None:
    """Everything that a ledger may hold: turns, choices, groups, rewards, a step, odd text, teacher data, retries."""
    with engine.begin() as connection:
        fill(connection)
        record_calls(connection, [
            odd_call(),
            a_call(version=None, untrainable_reason=Reason.EXTERNAL_MODEL, prompt_ids=None),
            n_call(2, group="task", num_prompts=1),
            sent(0), sent(5, num_retries=1), sent(9, num_retries=2, status=ExchangeStatus.FAILED),
            a_call(num_choices=4, num_prompts=2, choices=[a_choice(k, prompt_ids=[1, k // 2]) for k in range(4)]),
        ])  # fmt: skip
        post_reward(connection, "default", RewardPost("talk", metric="comment", content=ODD, source=ODD))
        post_reward(connection, "default", RewardPost("talk", value=0.25, comment=ODD, idempotency_id="i"))


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


def test_standard_input_and_output_are_files_like_any_other() -> None:
    lines = list(json_lines(io.BytesIO(b'\xef\xbb\xbf{"a": 1}\r\n\n{"b": 2}')))
    assert [(line.number, line.value) for line in lines] == [(1, {"a": 1}), (3, {"b": 2})]


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
