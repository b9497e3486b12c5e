"""I5: a thousand rewards from eight processes, with a kill -9 of the proxy in the middle, end in what a plain model says."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

from sqlalchemy import Engine, text

from ledger.policies import ensure_policy
from ledger.recording import record_calls
from tests.fakes.vllm import FakeVllm
from tests.ledger.calls import a_call
from tests.proxy.plain_scores import script
from tests.proxy.running import ROOT, eventually, is_ready, proxy_process, settings_for, start_process

_NUM_POSTS = 1000
_NUM_CALLS = 60
_NUM_GROUPS = 15
_NUM_CLOSED = 5  # of them, before the first post: their members are judged late
_COUNTED = text("""
    SELECT t.external_id, r.source, r.value FROM v1.rewards AS r JOIN trajectories AS t ON t.id = r.trajectory_id
    WHERE r.is_counted
""")
_REWARDS = text(
    "SELECT t.external_id, r.reward FROM v1.trajectory_rewards AS r JOIN trajectories AS t ON t.id = r.trajectory_id"
)
_CLOSE = text("UPDATE groups SET state = 'trained' WHERE key = ANY (:keys)")
_MEMBERS = text(
    "SELECT t.external_id, g.key, g.state FROM trajectories AS t JOIN groups AS g ON g.id = t.group_id"
)
_IDS = text("SELECT idempotency_id, count(*) FROM reward_events GROUP BY 1")


def test_i5_a_thousand_rewards_from_eight_processes_end_as_a_plain_model_says(
    database_url: str, engine: Engine, vllm: FakeVllm, tmp_path: Path
) -> None:
    """I5, B095, B096: in random order, repeated, changed, early and late; every post is answered in the end."""
    made = script(_NUM_POSTS, _NUM_CALLS, seed=5)
    calls = [a_call(external_id=f"call-{n}", group=f"group-{n % _NUM_GROUPS}") for n in range(_NUM_CALLS)]
    with engine.begin() as connection:
        ensure_policy(connection, name="default", base_model="base-model")
        record_calls(connection, calls[:20])
        connection.execute(_CLOSE, {"keys": [f"group-{n}" for n in range(_NUM_CLOSED)]})
    given = settings_for(database_url, vllm.url, tmp_path)
    with proxy_process(given, engine) as (proxy, process):
        port = int(proxy.url.rpartition(":")[2])
        posters = [_poster(port, posts) for posts in made.posts]
        recorder = Thread(target=_record, args=(engine, calls[20:]))
        recorder.start()
        eventually(lambda: proxy.rows("SELECT 1 FROM reward_events OFFSET 300 LIMIT 1"), 60)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert any(poster.poll() is None for poster in posters)
        second = start_process(given, port)
        try:
            eventually(lambda: is_ready(proxy.client), 60)
            answers = [json.loads(poster.communicate(timeout=120)[0]) for poster in posters]
        finally:
            second.send_signal(signal.SIGTERM)
            second.communicate(timeout=20)
        recorder.join()
    assert sum(len(some) for some in answers) == _NUM_POSTS
    assert {status for some in answers for status in some} <= {"recorded", "unchanged", "early"}
    with engine.connect() as connection:
        assert dict(connection.execute(_IDS).all()) == dict.fromkeys(made.ids, 1)  # type: ignore[arg-type]
        counted = {(name, source): value for name, source, value in connection.execute(_COUNTED)}
        assert counted == {(f"call-{call}", source): value for (call, source), value in made.latest.items()}
        rewards = {name: round(reward, 9) for name, reward in connection.execute(_REWARDS)}
        assert rewards == {f"call-{call}": round(reward, 9) for call, reward in made.rewards().items()}
        members = {name: (key, state) for name, key, state in connection.execute(_MEMBERS)}
        # Each is judged, so those of the closed groups went on to the next of their key.
        assert made.rewards().keys() == set(range(_NUM_CALLS))
        assert members == {f"call-{n}": (f"group-{n % _NUM_GROUPS}", "open") for n in range(_NUM_CALLS)}
        assert connection.scalar(text("SELECT count(*) FROM groups")) == _NUM_GROUPS + _NUM_CLOSED


def _poster(port: int, posts: list[object]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.proxy.posters", str(port)]
    poster = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert poster.stdin
    poster.stdin.write("".join(json.dumps(post) + "\n" for post in posts))
    poster.stdin.close()
    poster.stdin = None
    return poster


def _record(engine: Engine, calls: list[object]) -> None:
    """Meanwhile, in any order, a few at a time: many are judged before they are rows."""
    shuffled = random.Random(2).sample(calls, len(calls))
    for n in range(0, len(shuffled), 4):
        with engine.begin() as connection:
            record_calls(connection, shuffled[n : n + 4])  # type: ignore[arg-type]


def test_b095_what_was_answered_survives_a_kill_right_behind_it(
    database_url: str, engine: Engine, vllm: FakeVllm, tmp_path: Path
) -> None:
    """I5, B095."""
    given = settings_for(database_url, vllm.url, tmp_path)
    with proxy_process(given, engine) as (proxy, process):
        answer = proxy.client.post("/v1/trajectories/kept/reward", json={"reward": 0.5})
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (answer.status_code, answer.json()["status"]) == (200, "early")
        [event] = proxy.rows("SELECT id, value FROM reward_events")
    assert (str(event.id), event.value) == (answer.json()["id"], 0.5)
