"""Rows of a reward query as items: what each type becomes, and that the same row is the same item."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from slipstream.errors import UsageError
from slipstream.reward_posting import MAX_ITEMS, Outcome, post_all
from slipstream.reward_query import COLUMNS, MAX_BYTES, BadRow, Item, items


def one(**row: Any) -> Item | BadRow | None:
    return next(items(iter([list(row), tuple(row.values())]), "sql"))


def body(**row: Any) -> dict[str, Any]:
    found = one(**row)
    assert isinstance(found, Item)
    return found.body


@pytest.mark.parametrize(
    ("value", "reward"), [(1, 1.0), (True, True), (Decimal("0.25"), 0.25), (-0.5, -0.5), (False, False)]
)
def test_numbers_and_booleans_are_rewards(value: object, reward: object) -> None:
    assert repr(body(target="t", reward=value)["reward"]) == repr(reward)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "not finite"),
        (Decimal("NaN"), "not finite"),
        (float("inf"), "not finite"),
        ("0.5", "is text: cast it"),
        ({"a": 1}, "is json: cast it"),
        (datetime(2026, 11, 30, tzinfo=UTC), "is timestamp: cast it"),
    ],
)
def test_what_is_no_finite_number_is_refused_by_row(value: object, message: str) -> None:
    """B085: a reward that is not finite never teaches."""
    found = one(target="t", reward=value)
    assert isinstance(found, BadRow)
    assert message in found.message
    assert (found.number, found.target) == (1, "t")


def test_every_column_goes_where_it_belongs() -> None:
    number = UUID(int=7)
    found = body(
        target=number, reward=1, metric="tone", comment="kind", source=None, observed_at=date(2026, 11, 30), id=12, choice=3,
    )  # fmt: skip
    assert found == {
        "target": str(number), "reward": 1.0, "source": "sql", "metric": "tone", "comment": "kind",
        "observed_at": "2026-11-30", "id": "12", "choice": 3,
    }  # fmt: skip
    assert found.keys() == COLUMNS.keys()


def test_the_same_row_has_the_same_id_and_a_changed_one_another() -> None:
    first = body(target="t", reward=1, comment="x")["id"]
    assert first.startswith("sql-")
    assert body(comment="x", reward=1, target="t")["id"] == first  # whatever the order of the columns
    assert body(target="t", reward=Decimal(1), comment="x")["id"] == first
    changed = (
        {"target": "u"},
        {"reward": 0},
        {"comment": None},
        {"observed_at": "2026-11-30"},
        {"source": "me"},
    )
    ids = {body(**{"target": "t", "reward": 1, "comment": "x", **change})["id"] for change in changed}
    assert len(ids | {first}) == 6


def test_a_moment_is_the_same_whatever_the_zone_of_the_session() -> None:
    noon = datetime(2026, 11, 30, 12, tzinfo=UTC)
    there = noon.astimezone(timezone(timedelta(hours=2)))
    assert body(target="t", reward=1, observed_at=there) == body(target="t", reward=1, observed_at=noon)


def test_a_choice_may_be_of_any_type_of_number_and_a_source_of_any_type() -> None:
    found = body(target="t", reward=1, choice=Decimal(2), source=Decimal(7))
    assert (repr(found["choice"]), found["source"]) == ("2", "7")


@pytest.mark.parametrize("choice", ["x", Decimal("1.5"), Decimal("NaN"), float("inf"), True])
def test_what_is_no_choice_is_refused_by_row(choice: object) -> None:
    found = one(target="t", reward=1, choice=choice)
    assert isinstance(found, BadRow)


@pytest.mark.parametrize("column", ["comment", "target"])
def test_a_row_that_is_too_large_to_be_posted_stops_no_other(column: str) -> None:
    found = one(**{"target": "t", "reward": 1, column: "x" * MAX_BYTES})
    assert isinstance(found, BadRow)
    assert "no comment may be so long" in found.message
    assert len(found.target) <= 256


def test_a_row_without_a_reward_is_passed_over_and_one_without_a_target_refused() -> None:
    assert one(target="t", reward=None) is None
    assert isinstance(one(target=None, reward=1), BadRow)


@pytest.mark.parametrize(
    "names", [["target"], ["reward"], ["target", "reward", "stars"], ["target", "reward", "reward"]]
)
def test_other_columns_are_refused_before_a_row_is_read(names: list[str]) -> None:
    with pytest.raises(UsageError, match="Its columns may be: target"):
        next(items(iter([names]), "sql"))


def test_long_comments_make_small_batches_and_a_batch_is_never_longer_than_its_bound() -> None:
    sizes = []

    def post(batch: list[Item]) -> list[dict[str, Any]]:
        sizes.append(len(batch))
        return [{"status": "recorded"} for _ in batch]

    def told(_: Outcome) -> None:
        pass

    long = [Item(n, {"target": "t", "comment": "x" * 400_000}) for n in range(4)]
    post_all(long, post, told)
    escaped = [Item(n, {"target": "t", "comment": "ü" * 100_000}) for n in range(4)]  # six bytes each in JSON
    post_all(escaped, post, told)
    post_all([Item(n, {"target": "t"}) for n in range(MAX_ITEMS + 1)], post, told)
    assert sizes == [3, 1, 2, 2, MAX_ITEMS, 1]
