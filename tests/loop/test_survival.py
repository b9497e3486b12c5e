"""What the loop survives: kill -9 of the worker in a step, kill -9 of vLLM, Ctrl-C, and a second start."""

import time
from pathlib import Path

import openai
import psutil

from slipstream.local.home import Home
from slipstream.local.recovery import marked
from tests.loop.lessons import give_lesson
from tests.loop.stack import Stack, wait_for
from tests.loop.test_loop import STEP_SECONDS, ask

RUNNING = "SELECT version FROM training_steps WHERE state IN ('claimed', 'built', 'updated')"
UNFINISHED = "SELECT version FROM training_steps WHERE finished_at IS NULL"


def test_a_step_whose_worker_is_killed_is_finished_once_by_the_next_tick(stack: Stack) -> None:
    """I6, I9: kill -9 in the middle of a step; another worker finishes the same step."""
    before = stack.live_version()
    give_lesson(stack, num_groups=4, num_choices=4, max_tokens=24)
    ((killed,),) = wait_for(lambda: stack.rows(RUNNING), 60, "a step runs")
    stack.child("worker").kill()
    wait_for(lambda: not stack.rows(UNFINISHED), STEP_SECONDS, "the step was finished")
    made = f"FROM training_steps WHERE version > {before} AND state <> 'skipped'"  # one was, before: it made none
    steps = stack.rows(f"SELECT version, state {made} ORDER BY version")
    assert steps == [(before + 1 + n, "published") for n in range(len(steps))]
    assert stack.rows(f"SELECT attempt {made} AND version = {killed}") == [(2,)]
    assert stack.live_version() == steps[-1][0] >= killed
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


def test_down_stops_the_stack_from_elsewhere(stack: Stack) -> None:
    everything = stack.everything()
    assert stack.slipstream("down").returncode == 0
    assert stack.process.wait(10) == 0
    assert not any(p.is_running() for p in everything)


def test_a_vllm_that_dies_at_start_is_one_sentence_with_its_last_lines_and_nothing_is_left(
    test_model: Path, tmp_path: Path
) -> None:
    broken = Stack(tmp_path, test_model)
    broken.environment["SLIPSTREAM_VLLM_ARGUMENTS"] = "--no-such-flag"
    result = broken.slipstream("up", "--port", "0", "--model", str(test_model))
    assert result.returncode == 1
    assert "vllm ended with exit code 2." in result.stderr
    assert "unrecognized arguments: --no-such-flag" in result.stderr
    assert str(tmp_path / "logs" / "vllm.log") in result.stderr
    assert marked(Home.at(tmp_path)) == []
