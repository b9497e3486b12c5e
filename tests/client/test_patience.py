"""When a request is sent again, and after how long."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from slipstream.client.patience import Answer, Patience

PATIENCE = Patience(num_retries=3, first_wait_seconds=1.0, max_wait_seconds=8.0)


def answer(status: int, **headers: str) -> Answer:
    return Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, b"")


@pytest.mark.parametrize(("num_failed", "longest"), [(1, 1.0), (2, 2.0), (3, 4.0)])
def test_waits_double_with_jitter_that_at_most_halves_them(num_failed: int, longest: float) -> None:
    waits = [PATIENCE.wait_seconds(num_failed, ConnectionError()) for _ in range(100)]
    assert all(wait is not None and longest / 2 <= wait <= longest for wait in waits)
    assert len(set(waits)) > 50


def test_patience_ends() -> None:
    assert PATIENCE.wait_seconds(4, ConnectionError()) is None
    assert Patience(0).wait_seconds(1, answer(503)) is None


def test_waits_stop_growing() -> None:
    wait = Patience(num_retries=10**6, max_wait_seconds=8).wait_seconds(10**5, ConnectionError())
    assert wait is not None
    assert 4 <= wait <= 8


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422])
def test_a_refusal_stays_a_refusal(status: int) -> None:
    assert PATIENCE.wait_seconds(1, answer(status)) is None


def test_the_server_says_how_long() -> None:
    assert PATIENCE.wait_seconds(1, answer(429, retry_after="5")) == 5
    in_six = format_datetime(datetime.now(UTC) + timedelta(seconds=6), usegmt=True)
    wait = PATIENCE.wait_seconds(1, answer(503, retry_after=in_six))
    assert wait is not None
    assert 4 < wait <= 6


def test_a_server_that_asks_for_too_long_is_left() -> None:
    assert PATIENCE.wait_seconds(1, answer(503, retry_after="9")) is None


@pytest.mark.parametrize("odd", ["", "soon", "-5", "nan", "Wed, 99", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_an_odd_retry_after_is_no_wait_of_its_own(odd: str) -> None:
    wait = PATIENCE.wait_seconds(1, answer(503, retry_after=odd))
    assert wait is not None
    assert 0.5 <= wait <= 1
