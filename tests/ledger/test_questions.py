"""Each query of examples/sql gives what a plain loop over the same world gives."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.ledger import plain_rewards, plain_traffic
from tests.ledger.conftest import PLAN, LoadedWorld
from tests.ledger.plain import Rows
from tests.ledger.psql import QUERIES, psql, shown

SINCE = PLAN.until - timedelta(days=45)
NUM_COLUMNS = 125  # of a terminal, about
WIDE = {"next_step", "slowest_calls", "trained_by_version"}  # an id and many figures: for \x
SINCE_MS = int(SINCE.timestamp() * 1000)
OPTIONS = {
    "tokens_by_route": {"prompt_price": 1, "completion_price": 2},
    "compare_policies": {"one": "default/default", "other": "acme/default"},
    "trained_by_version": {"version": 5},
}
ANSWERS: dict[str, Callable[..., Rows]] = {
    name: getattr(module, name)
    for module in (plain_rewards, plain_traffic)
    for name in (path.stem for path in QUERIES.glob("*.sql"))
    if hasattr(module, name)
}
OF_STEPS = {
    "learning_by_version": plain_rewards.learning_by_version,
    "staleness": plain_rewards.staleness,
    "trained_by_version": plain_rewards.trained_by_version,
}


def is_alike(found: str, expected: Any) -> bool:
    """Numbers to what the file rounds to, ids without dashes, NULL as nothing; `...` is anything."""
    if expected is ...:
        return True
    if expected is None:
        return found == ""
    if isinstance(expected, bool):
        return found == ("t" if expected else "f")
    if isinstance(expected, int | float):
        num_decimals = len(found.partition(".")[2])
        return found != "" and abs(float(found) - expected) <= 0.51 * 10**-num_decimals * bool(num_decimals)
    return found.replace("-", "") == str(expected).replace("-", "")


def assert_alike(found: list[list[str]], expected: Rows) -> None:
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected, strict=True):
        assert all(map(is_alike, row, wanted)), f"{row} is not {wanted}"


def test_every_query_has_a_plain_answer() -> None:
    assert ANSWERS.keys() == {path.stem for path in QUERIES.glob("*.sql")}


@pytest.mark.parametrize("name", sorted(ANSWERS.keys() - OF_STEPS.keys()))
def test_a_query_answers_what_a_plain_loop_answers(world: LoadedWorld, name: str) -> None:
    found = psql(world.url, f"{name}.sql", since=SINCE.isoformat(), **OPTIONS.get(name, {}))
    expected = ANSWERS[name](world.tasks, SINCE_MS)
    assert expected
    assert_alike(found, expected)


def test_staleness_what_trained_a_version_and_what_its_step_did(world: LoadedWorld) -> None:
    assert_alike(psql(world.url, "staleness.sql"), plain_rewards.staleness(world.traffic))
    assert_alike(psql(world.url, "learning_by_version.sql"), plain_rewards.learning_by_version(world.traffic))
    expected = [row[:-1] for row in plain_rewards.trained_by_version(world.traffic, 5)]
    assert_alike(psql(world.url, "trained_by_version.sql", version=5), expected)


def test_a_time_range_has_a_default_of_thirty_days(world: LoadedWorld) -> None:
    now = datetime.now(PLAN.until.tzinfo)
    given = psql(world.url, "untrainable.sql", since=(now - timedelta(days=30)).isoformat())
    assert psql(world.url, "untrainable.sql") == given


@pytest.mark.parametrize("name", sorted(ANSWERS.keys() - WIDE))
def test_an_answer_fits_a_terminal(world: LoadedWorld, name: str) -> None:
    lines = shown(world.url, f"{name}.sql", since=SINCE.isoformat(), **OPTIONS.get(name, {}))
    assert max(map(len, lines)) <= NUM_COLUMNS, lines[0]
