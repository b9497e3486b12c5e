"""The loop on real parts: calls → rewards → a step → a hot-loaded version that answers. The tests build on each other."""

import json
import threading
import time
from pathlib import Path

import pytest

from tests.loop.lessons import give_lesson
from tests.loop.stack import ROOT, Stack, wait_for

STEP_SECONDS = 240
STREAM_SECONDS = 30


def ask(stack: Stack) -> str:
    reply = stack.client().chat.completions.create(
        model="gpt-4o-mini", messages=[{"role": "user", "content": "Say hello."}], max_tokens=4
    )
    return reply.model


def tokens_in(stack: Stack, seconds: float) -> int:
    """About how many tokens a stream gets in so long, on this machine as busy as it is."""
    begun_at = time.monotonic()
    stack.client().chat.completions.create(
        model="gpt-4o-mini",
        messages=[{"role": "user", "content": "Count."}],
        max_tokens=24,
        extra_body={"ignore_eos": True},
    )
    return min(700, max(60, int(24 * seconds / (time.monotonic() - begun_at))))


def test_rewarded_calls_make_a_version_and_the_next_call_is_answered_by_it(stack: Stack) -> None:
    assert ask(stack) == "default@0"
    assert give_lesson(stack) == {"default@0"}
    wait_for(lambda: stack.live_version() == 1, STEP_SECONDS, "version 1 is live")
    wait_for(lambda: ask(stack) == "default@1", 5, "the proxy follows")


def test_a_stream_that_is_open_during_a_step_and_a_hot_load_ends_normally(stack: Stack) -> None:
    """I8: serving never stops for training or publishing."""
    before = stack.live_version()
    max_tokens = tokens_in(stack, STREAM_SECONDS)
    is_live = threading.Event()

    def learn() -> None:
        give_lesson(stack, num_choices=2, max_tokens=4)
        wait_for(lambda: stack.live_version() == before + 1, STEP_SECONDS, "the next version is live")
        is_live.set()

    stream = stack.client().chat.completions.create(
        model="gpt-4o-mini",
        messages=[{"role": "user", "content": "Tell me a long story."}],
        stream=True,
        max_tokens=max_tokens,
        extra_body={"ignore_eos": True},
    )
    learner = threading.Thread(target=learn)
    finish_reason, models, num_after = None, set(), 0
    for num_chunks, chunk in enumerate(stream):
        if num_chunks == 1:
            learner.start()
        models.add(chunk.model)
        num_after += is_live.is_set()
        finish_reason = chunk.choices[0].finish_reason if chunk.choices else finish_reason
    learner.join(STEP_SECONDS)
    assert (finish_reason, models) == ("length", {f"default@{before}"})
    assert num_after > 10, "the stream ended before the next version was live"


def test_every_exchange_names_the_version_that_vllm_reported(stack: Stack) -> None:
    """I2: the version stamped at dispatch is the adapter in vLLM's reply."""
    num_written = "SELECT count(*) FROM v1.exchanges WHERE status = 'completed'"
    wait_for(lambda: stack.rows(num_written)[0][0] > 12, 30, "the rows are written")
    found = set(stack.rows("SELECT version, answered_model FROM v1.exchanges WHERE status = 'completed'"))
    assert {version for version, _ in found} >= {0, 1}
    for version, answered in found:
        assert answered == (f"default@{version}" if version else str(stack.model))


def test_recorded_logprobs_agree_with_the_trainers(stack: Stack) -> None:
    """I3: token ids and sampling logprobs are what vLLM computed: the trainer recomputes them at the same version."""
    result = stack.slipstream("doctor", "--check-logprobs", "--json")
    findings = {finding["name"]: finding for finding in json.loads(result.stdout)}
    figures = findings["logprobs"]["figures"]
    assert result.returncode == 0, result.stdout
    assert figures["versions"][:2] == [0, 1]
    assert figures["num_tokens"] > 50
    assert figures["mean_difference"] < 1e-3


@pytest.mark.parametrize(
    "query", sorted((ROOT / "examples" / "sql").glob("*.sql")), ids=lambda path: path.stem
)
def test_the_readmes_queries_run_as_printed(stack: Stack, query: Path) -> None:
    result = stack.slipstream("psql", "-v", "ON_ERROR_STOP=1", "-f", str(query))
    assert result.returncode == 0, result.stderr
    assert "row" in result.stdout


def test_the_commands_that_look_say_the_same(stack: Stack) -> None:
    live = stack.live_version()
    status = json.loads(stack.slipstream("status", "--json").stdout)
    versions = json.loads(stack.slipstream("versions", "--json").stdout)
    assert status["policies"]["default"]["live_version"] == live
    assert [v["model"] for v in versions if v["is_live"]] == [f"default@{live}"]
    assert stack.slipstream("train").returncode == 0


def test_a_second_up_in_the_same_home_is_refused(stack: Stack) -> None:
    result = stack.slipstream("up")
    assert result.returncode == 1
    assert str(stack.process.pid) in result.stderr
