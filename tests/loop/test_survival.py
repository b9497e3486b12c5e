"""What the loop survives: kill -9 of the worker in a step, kill -9 of vLLM, Ctrl-C, and a second start."""

import time

import openai
import psutil

from tests.loop.lessons import give_lesson
from tests.loop.stack import Stack, wait_for
from tests.loop.test_loop import STEP_SECONDS, ask

RUNNING = "SELECT version, state FROM training_steps WHERE state IN ('claimed', 'built', 'updated')"


def test_a_step_whose_worker_is_killed_is_finished_once_by_the_next_tick(stack: Stack) -> None:
    """I6, I9: kill -9 in the middle of a step; another worker finishes the same step."""
    before = stack.live_version()
    give_lesson(stack, num_groups=4, num_choices=8, max_tokens=24)
    wait_for(lambda: stack.rows(RUNNING), 60, "a step runs")
    stack.child("worker").kill()
    wait_for(lambda: stack.live_version() > before, STEP_SECONDS, "the step was finished")
    wait_for(lambda: not stack.rows(RUNNING), STEP_SECONDS, "nothing is left running")
    published = stack.rows(
        f"SELECT version, count(*) FROM training_steps WHERE version > {before} GROUP BY version"
    )
    assert [count for _, count in published] == [1] * (stack.live_version() - before)
    assert stack.rows(
        f"SELECT attempt > 1 OR fencing_token > 1 FROM training_steps WHERE version = {before + 1}"
    ) == [(True,)]
    twice = "SELECT exchange_id FROM step_samples WHERE is_used GROUP BY exchange_id HAVING count(*) > 1"
    assert stack.rows(twice) == []


def test_a_killed_vllm_comes_back_with_the_live_adapter_and_never_answers_as_the_base(stack: Stack) -> None:
    """I8: a bounded wait, then 503 with Retry-After; the learned name is never answered by another version."""
    live = stack.live_version()
    assert live > 0
    stack.child("vllm").kill()
    begun_at = time.monotonic()
    refusals, answer = [], None
    while answer is None:
        assert time.monotonic() - begun_at < 240, "vLLM did not come back"
        try:
            answer = ask(stack)
        except openai.APIStatusError as error:
            assert time.monotonic() - begun_at < 240
            refusals.append((error.status_code, "retry-after" in error.response.headers))
    assert answer == f"default@{live}"
    assert set(refusals) <= {(503, True), (502, True), (502, False)}
    assert (503, True) in refusals
    assert any("vllm ended" in line and "starting it again" in line for line in stack.lines)


def test_ctrl_c_leaves_no_process_and_a_second_up_resumes_the_same_version(stack: Stack) -> None:
    live = stack.live_version()
    everything = stack.everything()
    assert len(everything) > 10
    assert stack.interrupt() == 0
    assert [p for p in everything if p.is_running() and p.status() != psutil.STATUS_ZOMBIE] == []
    stack.start()
    assert stack.live_version() == live
    assert ask(stack) == f"default@{live}"
    give_lesson(stack)
    wait_for(lambda: stack.live_version() == live + 1, STEP_SECONDS, "learning goes on")
