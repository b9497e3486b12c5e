"""An SDK's retry goes where the call went that it repeats."""

from typing import Any

import pytest

from tests.fakes.vllm import FakeVllm
from tests.proxy.running import RunningProxy, eventually
from tests.proxy.talks import reply_of, then, trajectory_of

RETRY = {"x-stainless-retry-count": "1"}


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_retry_keeps_the_trajectory_that_its_first_attempt_began(
    two: tuple[RunningProxy, RunningProxy], vllm: FakeVllm, question: dict[str, Any], is_elsewhere: bool
) -> None:
    a, b = two
    vllm.faults.status, vllm.faults.raw_body = 503, b"{}"
    failed = a.chat(messages=[question])
    vllm.faults.status = vllm.faults.raw_body = None
    other_body = a.chat(RETRY, messages=[question], seed=1)
    again = (b if is_elsewhere else a).chat(RETRY, messages=[question])
    assert again.headers["x-trajectory-id"] == failed.headers["x-trajectory-id"]
    assert again.headers["x-trajectory-id"] != other_body.headers["x-trajectory-id"]
    without_mark = a.chat(messages=[question])
    assert trajectory_of(without_mark) != trajectory_of(again)


def test_a_retry_of_a_turn_whose_answer_was_lost_goes_on_and_the_turn_stays_taken(
    proxy: RunningProxy, question: dict[str, Any]
) -> None:
    first = proxy.chat(messages=[question])
    following = then(question, reply_of(first))
    lost, again = proxy.chat(messages=following), proxy.chat(RETRY, messages=following)
    assert trajectory_of(first) == trajectory_of(lost) == trajectory_of(again)
    third = then(*following, reply_of(again))  # the same answer twice is one answered turn
    ids = [trajectory_of(proxy.chat(messages=third, seed=seed)) for seed in (1, 2)]
    assert ids[0] == trajectory_of(first) != ids[1]


def test_a_retry_at_another_proxy_of_a_turn_whose_answer_was_lost_is_placed_when_it_is_written(
    two: tuple[RunningProxy, RunningProxy], question: dict[str, Any]
) -> None:
    a, b = two
    first = a.chat(messages=[question])
    following = then(question, reply_of(first))
    lost, again = a.chat(messages=following), b.chat(RETRY, messages=following)
    assert lost.status_code == again.status_code == 200
    a.exchanges(3)
    of_first = "SELECT untrainable_reason FROM exchanges WHERE trajectory_id = :id ORDER BY id"
    placed = [(None,), ("duplicate_retry",), (None,)]
    eventually(lambda: a.rows(of_first, id=trajectory_of(first)) == placed)


def test_a_retry_after_a_failure_takes_the_turn_that_was_given_back(
    two: tuple[RunningProxy, RunningProxy], vllm: FakeVllm, question: dict[str, Any]
) -> None:
    a, b = two
    first = a.chat(messages=[question])
    following = then(question, reply_of(first))
    vllm.faults.status, vllm.faults.raw_body = 503, b"{}"
    a.chat(messages=following)
    vllm.faults.status = vllm.faults.raw_body = None
    assert trajectory_of(a.chat(RETRY, messages=following)) == trajectory_of(first)
    assert trajectory_of(b.chat(messages=following, seed=3)) != trajectory_of(first)
