"""Siblings of a lone scored answer, on real Postgres: same prompt, same group, marked, scored; and when there are none."""

import json
from typing import Any

import pytest
from sqlalchemy import text

from ledger.recording import record_calls
from ledger.records import Attribution
from ledger.vocabulary import IdentifiedBy
from tests.fakes.vllm import running_fake_vllm
from tests.fakes.vllm_tokens import prompt_ids_of
from tests.trainer.siblings.originals import MESSAGES, add_original, expire, run_of, shadows, siblings_of
from tests.trainer.traffic import call, one, rows
from trainer.siblings.siblings import make_siblings


def test_a_lone_scored_answer_gets_siblings_in_its_group(engine, vllm, scorer, siblings) -> None:
    scorer.answers = [(200, '{"reward": 0.25, "comment": "meh"}'), (200, '{"reward": 0}')]
    tools = [{"type": "function", "function": {"name": "f"}}]
    request = {
        "model": "gpt-4o", "temperature": 0.5, "top_p": 0.9, "seed": 7, "n": 1, "stream": True, "tools": tools, "stop": ["x"],
        "user": "anna", "metadata": {"user_id": "u", "session_id": "s"}, "lora_path": "/etc", "request_id": "r", "priority": -9,
        "cache_salt": "c", "store": True,
    }  # fmt: skip
    exchange_id = add_original(engine, request=request, temperature=0.5, top_p=0.9)
    assert make_siblings(siblings()) == 2
    sent = [json.loads(seen.body) for seen in vllm.chats()]
    assert sent[0] == sent[1] == {
        "messages": MESSAGES, "model": "base-model", "temperature": 0.5, "top_p": 0.9, "max_tokens": 3, "stop": ["x"],
        "tools": tools, "stream": False, "return_token_ids": True, "logprobs": True, "top_logprobs": 0,
    }  # fmt: skip
    found = shadows(engine)
    assert [row.id for row in found] == sorted(run_of(engine).sibling_ids)
    for row in found:
        assert row.id == row.trajectory_id
        assert (row.is_trainable, row.version, row.temperature, row.top_p, row.seed) == (
            True,
            0,
            0.5,
            0.9,
            None,
        )
        assert (row.prompt_ids, row.messages) == (prompt_ids_of(MESSAGES), MESSAGES)
        assert len(row.completion_ids) == len(row.logprobs) == 3
        assert (row.request["user"], row.request["metadata"]) == ("anna", {"user_id": "u"})
        assert row.response["content"] == row.completion_text
        assert (row.conversation_sha256, row.request_sha256) == (None, None)  # nobody goes on with it
    groups = "SELECT count(DISTINCT group_id), count(*), count(*) FILTER (WHERE is_shadow) FROM trajectories"
    assert rows(engine, groups) == [(1, 3, 2)]
    events = "SELECT value, source, comment FROM reward_events WHERE source = 'scorer' ORDER BY id"
    assert rows(engine, events) == [(0.25, "scorer", "meh"), (0.0, "scorer", None)]
    assert scorer.seen[0]["messages"] == MESSAGES
    assert scorer.seen[0]["answer"] == found[0].response
    assert scorer.seen[0]["metadata"]["sibling_of"] != str(exchange_id)
    run = run_of(engine)
    assert (run.state, run.reason, run.num_attempts) == ("finished", None, 0)
    assert run.num_tokens == 2 * (len(prompt_ids_of(MESSAGES)) + 3)


def test_it_is_done_once(engine, vllm, siblings) -> None:
    add_original(engine)
    assert [make_siblings(siblings()), make_siblings(siblings(owner="b"))] == [2, 0]
    expire(engine)
    assert make_siblings(siblings()) == 0
    assert len(vllm.chats()) == 2


@pytest.mark.parametrize(
    "changes", [{"num_siblings": 0}, {"is_training": True}, {"tokens_per_day": 16}, {"scorer_url": None}]
)
def test_it_is_off_by_default_beside_a_step_beyond_the_budget_and_where_nobody_scores(
    engine, vllm, scorer, changes
) -> None:
    add_original(engine)
    given: dict[str, Any] = {"scorer_url": scorer.url, **changes}
    assert make_siblings(siblings_of(engine, [vllm], **given)) == 0
    assert (vllm.chats(), shadows(engine)) == ([], [])


def test_where_a_judge_scores_siblings_are_left_to_it(engine, vllm) -> None:
    add_original(engine)
    assert make_siblings(siblings_of(engine, [vllm], None, judge="open_groups")) == 2
    assert run_of(engine).state == "finished"
    assert one(engine, "SELECT count(*) FROM reward_events") == 1


@pytest.mark.parametrize("load", [(1, 0), (0, 1), None])
def test_a_server_with_traffic_or_without_a_word_about_it_samples_nothing(
    engine, vllm, siblings, load
) -> None:
    add_original(engine)
    vllm.load = load
    assert make_siblings(siblings()) == 0
    assert rows(engine, "SELECT * FROM sibling_runs") == []
    vllm.load = (1, 0)
    assert make_siblings(siblings(max_running=1)) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"reward": None},
        {"is_final": False},
        {"temperature": 0.0},
        {"endpoint": "/v1/responses"},
        {"is_shadow": True},
    ],
)
def test_what_is_unscored_untrainable_or_a_sibling_itself_gets_none(engine, siblings, changes) -> None:
    add_original(engine, **changes)
    assert make_siblings(siblings()) == 0


def test_who_has_company_gets_none(engine, siblings) -> None:
    add_original(engine)
    add_original(engine, reward=None)  # the same prompt
    assert make_siblings(siblings()) == 0


def test_who_talked_on_gets_none(engine, siblings) -> None:
    add_original(engine)
    attribution = Attribution(one(engine, "SELECT trajectory_id FROM exchanges"), IdentifiedBy.NEW)
    with engine.begin() as connection:
        record_calls(connection, [call(2, 1, attribution=attribution)])
    assert make_siblings(siblings()) == 0


def test_an_explored_original_has_explored_siblings(engine, vllm, siblings) -> None:
    add_original(
        engine, is_explored=True, temperature=0.7, request={"temperature": 0, "top_p": 0.1, "min_p": 1}
    )
    make_siblings(siblings())
    sent = json.loads(vllm.chats()[0].body)
    assert (sent["temperature"], "top_p" in sent, "min_p" in sent) == (0.7, False, False)
    assert [row.is_explored for row in shadows(engine)] == [True, True]


def test_a_legacy_completion_has_siblings_too(engine, vllm, scorer, siblings) -> None:
    add_original(
        engine,
        endpoint="/v1/completions",
        messages=None,
        request={"prompt": "Sky"},
        prompt_ids=prompt_ids_of("Sky"),
    )
    assert make_siblings(siblings()) == 2
    assert shadows(engine)[0].response["content"].startswith(" w")
    assert scorer.seen[0]["messages"] == [{"role": "user", "content": "Sky"}]


def test_the_version_that_answered_comes_before_the_live_one(engine, vllm, siblings) -> None:
    add_original(engine, version=1)
    vllm.adapters |= {"default@1": "x", "default@2": "x"}
    with engine.begin() as connection:
        connection.execute(text("UPDATE policies SET live_version = 2"))
    make_siblings(siblings(num_siblings=1))
    del vllm.adapters["default@1"]
    add_original(engine, version=1, messages=[{"role": "user", "content": "2"}], prompt_ids=prompt_ids_of([{"role": "user", "content": "2"}]))  # fmt: skip
    make_siblings(siblings(num_siblings=1))
    assert [(row.version, row.answered_model) for row in shadows(engine)] == [
        (1, "default@1"),
        (2, "default@2"),
    ]
    assert one(engine, "SELECT count(DISTINCT group_id) FROM trajectories") == 2


def test_an_idle_server_is_found_beside_a_busy_one(engine, vllm, scorer) -> None:
    add_original(engine)
    with running_fake_vllm() as other:
        vllm.load = (3, 1)
        assert make_siblings(siblings_of(engine, [vllm, other], scorer.url)) == 2
        assert (len(vllm.chats()), len(other.chats())) == (0, 2)


def test_the_day_and_the_pass_have_their_bounds(engine, vllm, siblings) -> None:
    """A prompt of 14 ids and 3 tokens: 17 for each sibling."""
    assert len(prompt_ids_of(MESSAGES)) == 14
    add_original(engine)
    assert make_siblings(siblings(num_siblings=4, per_pass=1)) == 1
    expire(engine)
    assert make_siblings(siblings(num_siblings=4, tokens_per_day=40)) == 1
    expire(engine)
    assert make_siblings(siblings(num_siblings=4, tokens_per_day=40)) == 0
    assert run_of(engine).state == "sampling"
