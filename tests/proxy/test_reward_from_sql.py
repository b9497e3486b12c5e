"""`slipstream reward --from-sql`: a query over the user's own tables becomes reward events, once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from sqlalchemy import text
from typer.testing import CliRunner

from ledger.database import sync_engine
from slipstream import reward_posting
from slipstream.cli import app
from slipstream.errors import NotRunningError, SlipstreamError, UsageError
from slipstream.reward_posting import poster
from slipstream.reward_query import Item
from tests.proxy.running import RunningProxy

Run = Callable[..., Result]
VOTES = """
    CREATE TABLE votes (run text, stars integer, said text, at timestamptz DEFAULT '2026-11-30T10:00:00Z');
    INSERT INTO votes VALUES ('run-1', 1, 'great'), ('run-2', 0, NULL), ('run-3', NULL, NULL), (NULL, 1, NULL),
        ('run-1', 7, NULL), ('not recorded', 1, NULL)
"""
QUERY = "SELECT run AS target, stars AS reward, said AS comment, at AS observed_at FROM votes ORDER BY run, stars;"


def change(url: str, statement: str) -> None:
    engine = sync_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


@pytest.fixture
def run(proxy: RunningProxy, empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command over a database of the user's, with two recorded trajectories in the ledger."""
    for name in ("run-1", "run-2"):
        proxy.chat(headers={"X-Trajectory-Id": name})
    proxy.exchanges(2)
    for part in VOTES.split(";"):
        change(empty_database_url, part)
    monkeypatch.setenv("SLIPSTREAM_URL", proxy.url)
    monkeypatch.setenv("SLIPSTREAM_REWARDS_DATABASE_URL", empty_database_url)

    def invoke(query: str, *options: str) -> Result:
        file = tmp_path / "query.sql"
        file.write_text(query)
        return CliRunner().invoke(app, ["reward", "--from-sql", str(file), *options])

    return invoke


def events(proxy: RunningProxy) -> list[tuple[Any, ...]]:
    return [
        tuple(row)
        for row in proxy.rows("SELECT target, value, comment, source FROM v1.rewards ORDER BY target, id")
    ]


def test_rows_become_rewards_and_what_is_wrong_with_a_row_is_told(run: Run, proxy: RunningProxy) -> None:
    done = run(QUERY)
    assert done.exit_code == 1
    assert "6 rows: 1 early, 2 recorded, 2 refused, 1 without reward" in done.stdout
    assert "row 3 (run-1): The value 7.0 of metric 'reward' is outside its range" in done.stderr
    assert "row 6 (no target): target is NULL" in done.stderr
    assert events(proxy) == [
        ("not recorded", 1.0, None, "sql"), ("run-1", 1.0, "great", "sql"), ("run-2", 0.0, None, "sql"),
    ]  # fmt: skip


def test_running_it_again_changes_nothing_and_a_changed_row_is_a_new_judgement(
    run: Run, proxy: RunningProxy, empty_database_url: str
) -> None:
    """As from cron: I5."""
    change(empty_database_url, "DELETE FROM votes WHERE run IS NULL OR stars > 1")
    assert run(QUERY).exit_code == 0
    before = events(proxy)
    again = json.loads(run(QUERY, "--json").stdout)
    assert (again["num_rows"], again["recorded"], again["unchanged"]) == (4, 0, 2)
    assert events(proxy) == before
    change(empty_database_url, "UPDATE votes SET stars = 1, at = now() WHERE run = 'run-2'")
    assert json.loads(run(QUERY, "--json").stdout)["recorded"] == 1
    counted = proxy.rows("SELECT value FROM v1.rewards WHERE target = 'run-2' AND is_counted")
    assert [row.value for row in counted] == [1.0]


def test_an_id_column_names_the_row(run: Run, proxy: RunningProxy) -> None:
    query = "SELECT run AS target, stars AS reward, 'vote-' || run AS id FROM votes WHERE stars < 2 AND run LIKE 'run%'"
    assert json.loads(run(query, "--json", "--source", "survey").stdout)["recorded"] == 2
    changed = json.loads(
        run(query.replace("stars AS", "1 - stars AS"), "--json", "--source", "survey").stdout
    )
    assert (changed["refused"], changed["refused_rows"][0]["message"][:26]) == (
        2,
        "A reward with this id exis",
    )
    ids = proxy.rows("SELECT idempotency_id, source FROM v1.rewards ORDER BY 1")
    assert [tuple(row) for row in ids] == [("vote-run-1", "survey"), ("vote-run-2", "survey")]


def test_a_reward_by_hand_is_answered_with_a_sentence(run: Run) -> None:
    def reward(*words: str) -> str:
        return CliRunner().invoke(app, ["reward", *words]).stdout

    assert reward("run-1", "0.5") == "Recorded: 0.5 for run-1.\n"
    assert (
        reward("rnu-1", "1")
        == "rnu-1 is not known yet: the reward of 1 waits for that id. Is it spelt right?\n"
    )
    assert json.loads(reward("run-2", "1", "--json"))["status"] == "recorded"


def test_a_dry_run_posts_nothing(run: Run, proxy: RunningProxy) -> None:
    done = run(QUERY, "--dry-run")
    assert "nothing was posted" in done.stdout
    assert '"target": "run-1"' in done.stderr
    assert events(proxy) == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT run AS target FROM votes", "lacks reward"),
        ("SELECT run AS target, stars AS reward, said AS remark FROM votes", "has remark"),
        ("SELECT nothing", 'column "nothing" does not exist'),
        ("DELETE FROM votes RETURNING run AS target, stars AS reward", "is no SELECT"),
        (f"{QUERY} {QUERY}", "several statements"),
        ("-- mine\nUPDATE votes SET stars = 1", "is no SELECT"),
        (
            "WITH d AS (DELETE FROM votes RETURNING *) SELECT run AS target, stars AS reward FROM d",
            "data-modifying",
        ),
        ("SELECT run AS target, nextval('s') AS reward FROM votes", "read-only"),
        (" ", "is empty"),
    ],
)
def test_a_query_that_cannot_be_used_posts_nothing_and_says_why(
    run: Run, proxy: RunningProxy, empty_database_url: str, query: str, message: str
) -> None:
    change(empty_database_url, "CREATE SEQUENCE s")
    done = run(query)
    assert isinstance(done.exception, UsageError)
    assert message in str(done.exception)
    assert events(proxy) == []


def test_many_rows_go_in_batches(run: Run, proxy: RunningProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, call = [], reward_posting.call

    def counted(url: str, body: Any, **options: Any) -> Any:
        sizes.append(len(body))
        return call(url, body, **options)

    monkeypatch.setattr(reward_posting, "call", counted)
    done = run(
        "SELECT 'many-' || n AS target, n % 2 = 0 AS reward FROM generate_series(1, 450) AS n", "--json"
    )
    assert (json.loads(done.stdout)["early"], sizes) == (450, [200, 200, 50])


def test_a_query_that_breaks_off_says_that_what_was_posted_stays(run: Run, proxy: RunningProxy) -> None:
    query = "SELECT 'many-' || n AS target, 1 / (700 - n) AS reward FROM generate_series(1, 900) AS n"
    done = run(query)
    assert isinstance(done.exception, UsageError)
    assert "broke off: division by zero. What was posted before stays" in str(done.exception)
    assert proxy.rows("SELECT count(*) FROM reward_events")[0][0] == 400


def test_a_lost_answer_is_asked_for_again_and_nobody_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [
        OSError("reset"),
        (503, {}),
        (200, {"data": [{"status": "recorded"}]}),
        (401, {"error": {"message": "No key."}}),
    ]
    waits: list[float] = []

    def answering(*_: Any, **__: Any) -> Any:
        answer = answers.pop(0) if answers else OSError("gone")
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(reward_posting, "call", answering)
    post = poster("http://127.0.0.1:1", None, waits.append)
    assert post([Item(1, {})]) == [{"status": "recorded"}]
    assert waits == [1, 2]
    with pytest.raises(SlipstreamError, match=r"401.*No key"):
        post([Item(1, {})])
    with pytest.raises(NotRunningError, match="SLIPSTREAM_URL"):
        post([Item(1, {})])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["x", "1", "--from-sql", "f"],
        ["x", "1", "--dry-run"],
        ["x", "1", "--database", "postgresql://h/d"],
        ["--from-sql", "f", "--metric", "tone"],
        ["--from-sql", "f", "--comment", "good"],
        ["--from-sql", "f", "--choice", "1"],
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_posted(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run of one reward would post it, and an option that a query knows nothing of would be passed over."""
    monkeypatch.setenv("SLIPSTREAM_URL", "http://127.0.0.1:1")
    assert isinstance(CliRunner().invoke(app, ["reward", *arguments]).exception, UsageError)


@pytest.mark.parametrize("url", ["mysql://u:secret@h/d", "postgresql://u:secret@h:port/d", "nowhere"])
def test_an_address_that_cannot_be_used_is_said_without_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a secret said that stands in a file."""
    (tmp_path / "url").write_text(url)
    (tmp_path / "query.sql").write_text("SELECT 1")
    monkeypatch.setenv("SLIPSTREAM_REWARDS_DATABASE_URL_FILE", str(tmp_path / "url"))
    done = CliRunner().invoke(app, ["reward", "--from-sql", str(tmp_path / "query.sql")])
    assert isinstance(done.exception, UsageError)
    assert "SLIPSTREAM_REWARDS_DATABASE_URL" in str(done.exception)
    assert "secret" not in done.output + str(done.exception)
