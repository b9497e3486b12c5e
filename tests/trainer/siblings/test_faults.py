"""What a crash, a second worker, traffic, a change or an erasure leaves of a sibling run: the table of ADR 0017."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict
from sqlalchemy import text

from ledger.erasure.erase import erase_all
from ledger.erasure.subject import Subject
from ledger.vocabulary import ErasureSubject
from tests.proxy.running import eventually
from tests.trainer.siblings.originals import add_original, expire, run_of, shadows
from tests.trainer.traffic import one, rows
from trainer.siblings.siblings import make_siblings

ROOT = Path(__file__).parents[3]
NUM_TOKENS = 14 + 3  # of the prompt and the longest answer


def in_thread(make: Any) -> threading.Thread:
    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    return thread


def change(engine, statement: str) -> None:
    with engine.begin() as connection:
        connection.execute(text(statement))


def test_a_sample_that_died_with_its_worker_is_sampled_again_under_the_same_id(
    engine, database_url, vllm, scorer, siblings
) -> None:
    add_original(engine)
    vllm.faults.hang_before_reply = True
    command = [sys.executable, "-m", "tests.trainer.siblings.sampler", database_url, vllm.url, scorer.url]
    with subprocess.Popen(command, cwd=ROOT) as worker:
        eventually(vllm.chats, 60)
        worker.kill()
    vllm.faults.hang_before_reply = False
    run = run_of(engine)
    assert (run.state, run.lease_owner, run.num_attempts, run.num_tokens) == (
        "sampling",
        "killed",
        1,
        NUM_TOKENS,
    )
    assert make_siblings(siblings()) == 0  # its lease runs
    expire(engine)
    assert make_siblings(siblings()) == 2
    assert [row.id for row in shadows(engine)] == sorted(run.sibling_ids)
    first, again, _ = (CIMultiDict(seen.headers)["x-request-id"] for seen in vllm.chats())
    assert first == again == run.sibling_ids[0].hex
    assert (run_of(engine).state, run_of(engine).num_tokens) == ("finished", 3 * NUM_TOKENS)


def test_workers_that_die_each_time_are_a_bounded_failure(engine, vllm, siblings) -> None:
    add_original(engine)
    vllm.load = (0, 0)
    make_siblings(siblings(num_siblings=1))
    change(engine, "UPDATE sibling_runs SET state = 'sampling', finished_at = NULL, num_attempts = 5")
    expire(engine)
    make_siblings(siblings())
    assert (run_of(engine).state, run_of(engine).reason) == ("dropped", "sampling_failed")


def test_a_take_over_begins_behind_what_is_recorded(engine, vllm, siblings) -> None:
    add_original(engine)
    assert make_siblings(siblings(per_pass=1)) == 1
    expire(engine)
    assert make_siblings(siblings(owner="b")) == 1
    assert len(shadows(engine)) == len(vllm.chats()) == 2


def test_two_workers_make_one_run(engine, vllm, siblings) -> None:
    add_original(engine)
    vllm.faults.hang_before_reply = True
    first = in_thread(lambda: make_siblings(siblings(owner="a", look_seconds=0.05)))
    eventually(vllm.chats)
    assert make_siblings(siblings(owner="b")) == 0
    assert one(engine, "SELECT count(*) FROM sibling_runs") == 1
    vllm.load = (5, 0)  # so that the first ends
    first.join(20)
    assert len(vllm.chats()) == 1


def test_a_holder_that_lost_its_lease_writes_nothing(engine, vllm, siblings) -> None:
    add_original(engine)
    vllm.faults.event_seconds = 0.0
    vllm.faults.hang_before_reply = True
    first = in_thread(lambda: make_siblings(siblings(look_seconds=0.05)))
    eventually(vllm.chats)
    change(engine, "UPDATE sibling_runs SET lease_owner = 'b'")
    vllm.load = (5, 0)
    first.join(20)
    run = run_of(engine)
    assert (run.lease_owner, run.state, len(shadows(engine))) == ("b", "sampling", 0)


def test_a_sample_of_a_lost_lease_is_undone(engine, vllm, siblings) -> None:
    add_original(engine)
    vllm.on_chat = lambda: change(engine, "UPDATE sibling_runs SET lease_owner = 'b'")
    make_siblings(siblings())
    assert (len(vllm.chats()), shadows(engine)) == (1, [])
    assert one(engine, "SELECT count(*) FROM trajectories") == 1


def test_traffic_that_comes_meanwhile_ends_the_sampling(engine, vllm, siblings) -> None:
    add_original(engine)
    vllm.faults.hang_before_reply = True
    sampling = in_thread(lambda: make_siblings(siblings(look_seconds=0.05)))
    eventually(vllm.chats)
    vllm.load = (1, 0)  # ours alone
    assert sampling.is_alive()
    assert vllm.num_aborted == 0
    vllm.load = (1, 1)
    sampling.join(20)
    assert not sampling.is_alive()
    eventually(lambda: vllm.num_aborted == 1)
    run = run_of(engine)
    assert (run.state, run.num_attempts, run.lease_owner, run.reason) == ("sampling", 0, None, None)
    vllm.faults.hang_before_reply, vllm.load = False, (0, 0)
    assert make_siblings(siblings()) == 0  # put off
    expire(engine)
    assert make_siblings(siblings()) == 2


def test_another_prompt_drops_the_run(engine, vllm, siblings) -> None:
    add_original(engine, prompt_ids=[1, 2, 3])
    make_siblings(siblings())
    assert (run_of(engine).state, run_of(engine).reason) == ("dropped", "prompt_mismatch")
    assert (len(vllm.chats()), shadows(engine)) == (1, [])
    expire(engine)
    assert make_siblings(siblings()) == 0
    assert len(vllm.chats()) == 1


def test_another_model_s_answer_is_not_kept(engine, vllm, siblings) -> None:
    add_original(engine)
    vllm.faults.answer_as = "other"
    make_siblings(siblings())
    assert (run_of(engine).reason, shadows(engine)) == ("untrainable", [])


def test_a_vllm_that_fails_is_tried_a_bounded_number_of_times(engine, vllm, siblings) -> None:
    add_original(engine)
    vllm.faults.status, vllm.faults.raw_body = 500, b"{}"
    make_siblings(siblings(attempts=3))
    assert (len(vllm.chats()), run_of(engine).state, run_of(engine).reason) == (
        3,
        "dropped",
        "sampling_failed",
    )
    assert run_of(engine).num_tokens == 3 * NUM_TOKENS


@pytest.mark.parametrize("answer", [(503, "away"), (200, "fine"), (200, '{"reward": 7}')])
def test_a_scorer_that_fails_is_asked_again_later_a_bounded_number_of_times(
    engine, scorer, siblings, answer
) -> None:
    add_original(engine)
    scorer.answers = [answer]
    assert make_siblings(siblings(retry_seconds=60)) == 2
    run = run_of(engine)
    assert (run.state, run.num_attempts, run.reason, len(scorer.seen)) == ("scoring", 1, None, 1)
    scorer.answers = [(200, '{"reward": 0.5}')]
    expire(engine)
    assert make_siblings(siblings()) == 0
    assert run_of(engine).state == "finished"
    assert one(engine, "SELECT count(*) FROM reward_events WHERE source = 'scorer'") == 2


def test_siblings_of_a_dead_scorer_stay_unscored(engine, scorer, siblings) -> None:
    add_original(engine)
    scorer.answers = [(500, "")]
    make_siblings(siblings(attempts=2))
    assert (run_of(engine).state, run_of(engine).reason, len(scorer.seen)) == ("dropped", "scorer_failed", 2)
    assert (len(shadows(engine)), one(engine, "SELECT state FROM groups")) == (2, "open")


def test_scores_do_not_wait_for_an_idle_server(engine, vllm, scorer, siblings) -> None:
    add_original(engine)
    scorer.answers = [(503, ""), (200, '{"reward": 1}')]
    make_siblings(siblings(retry_seconds=60))
    expire(engine)
    vllm.load = (9, 9)
    make_siblings(siblings(is_training=True))
    assert run_of(engine).state == "finished"


def test_a_score_is_one_event_however_often_it_is_asked_for(engine, scorer, siblings) -> None:
    add_original(engine)
    make_siblings(siblings())
    change(engine, "UPDATE sibling_runs SET state = 'scoring', finished_at = NULL")
    expire(engine)
    make_siblings(siblings())
    assert (len(scorer.seen), one(engine, "SELECT count(*) FROM reward_events")) == (2, 3)


def test_a_group_that_was_claimed_meanwhile_gets_no_sibling(engine, vllm, siblings) -> None:
    add_original(engine)
    vllm.on_chat = lambda: change(engine, "UPDATE groups SET state = 'claimed'")
    make_siblings(siblings())
    assert (run_of(engine).reason, shadows(engine)) == ("group_closed", [])
    assert one(engine, "SELECT count(*) FROM trajectories") == 1


def erase(engine, kind: ErasureSubject, name: str) -> None:
    erase_all(engine, "default", Subject(kind, name), "test", None)


def test_an_original_that_is_erased_meanwhile_gets_no_sibling(engine, vllm, siblings) -> None:
    add_original(engine)
    name = str(one(engine, "SELECT id FROM trajectories"))
    vllm.on_chat = lambda: erase(engine, ErasureSubject.TRAJECTORY, name)
    make_siblings(siblings())
    assert (run_of(engine).reason, shadows(engine)) == ("erased", [])


@pytest.mark.parametrize("kind", list(ErasureSubject))
def test_erasing_an_original_erases_its_siblings(engine, siblings, kind) -> None:
    add_original(engine, request={"user": "anna"})
    make_siblings(siblings())
    original = one(engine, "SELECT id FROM trajectories WHERE NOT is_shadow")
    erase(engine, kind, "anna" if kind is ErasureSubject.USER else str(original))
    left = rows(
        engine,
        "SELECT e.id FROM exchanges AS e JOIN trajectories AS t ON t.id = e.trajectory_id"
        " WHERE e.erased_at IS NULL OR t.erased_at IS NULL OR e.prompt_ids IS NOT NULL OR e.messages IS NOT NULL",
    )
    assert left == []
    assert one(engine, "SELECT count(*) FROM exchanges") == 3
