"""Programs that must not wait: what is queued arrives, also at the end of the program; what is dropped is said."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from slipstream import AsyncClient, Client
from slipstream.client import background
from tests.client.conftest import NOWHERE, Events
from tests.fakes.middleman import Middleman, OwnAnswer
from tests.proxy.running import RunningProxy, eventually

ROOT = Path(__file__).parents[2]
Make = Callable[..., Client]


def program(code: str, url: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, text=True, capture_output=True, timeout=60, check=False,
        env={**os.environ, "SLIPSTREAM_URL": url, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def count(proxy: RunningProxy, name: str) -> int:
    sql = "SELECT count(*) FROM reward_events WHERE starts_with(target, :name)"
    return int(proxy.rows(sql, name=name)[0][0])


def test_a_program_that_ends_has_sent_everything(proxy: RunningProxy, name: str) -> None:
    code = f"""
from slipstream import Client
client = Client(background=True, flush_seconds=40)
for n in range(300):
    assert client.reward("{name}-" + str(n), 0.5).status == "queued"
client.comment("{name}-c", "fine")
"""
    done = program(code, proxy.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert count(proxy, name) == 301


def test_a_program_that_raises_has_sent_everything_too(proxy: RunningProxy, name: str) -> None:
    code = f'from slipstream import Client; Client(background=True).reward("{name}", 1); 1 / 0'
    assert "ZeroDivisionError" in program(code, proxy.url).stderr
    assert count(proxy, name) == 1


def test_a_program_ends_in_time_where_nobody_answers_and_says_what_was_lost() -> None:
    code = 'from slipstream import Client; c = Client(background=True, flush_seconds=0.2); c.rewards([("x", 1)] * 7)'
    done = program(code, NOWHERE)
    assert done.returncode == 0
    assert "judgements_dropped num_dropped=7" in done.stderr


def test_nothing_waits_and_many_go_as_one_list(
    client_of: Make, middleman: Middleman, proxy: RunningProxy, name: str
) -> None:
    client = client_of(background=True, flush_seconds=40)
    assert {client.reward(f"{name}-{n}", 0.5).status for n in range(200)} == {"queued"}
    assert client.flush()
    assert count(proxy, name) == 200
    assert len(middleman.seen) < 20
    assert (client.counts.num_sent, client.counts.num_waiting) == (200, 0)


def test_a_lost_answer_makes_no_second_event(
    client_of: Make, middleman: Middleman, events: Events, name: str
) -> None:
    middleman.num_lost = 1
    client = client_of(background=True, flush_seconds=40)
    client.reward(name, 0.5)
    assert client.flush()
    assert len(events(name)) == 1


def test_a_proxy_that_is_away_for_a_while_loses_nothing(
    client_of: Make, middleman: Middleman, events: Events, name: str
) -> None:
    middleman.own_answers = [OwnAnswer(503)] * 4
    client = client_of(background=True, flush_seconds=40)
    client.reward(name, 0.5)
    assert client.flush()
    assert len(events(name)) == 1


def test_a_flush_does_not_wait_as_long_as_the_thread_would(
    client_of: Make, middleman: Middleman, events: Events, name: str
) -> None:
    middleman.own_answers = [OwnAnswer(503, headers={"retry-after": "29"})]
    client = client_of(background=True)
    client.reward(name, 0.5)
    eventually(lambda: middleman.seen)
    assert client.flush(20)
    assert len(events(name)) == 1


def test_a_full_queue_drops_the_newest_and_counts_them(
    client_of: Make, caplog: pytest.LogCaptureFixture
) -> None:
    client = client_of(NOWHERE, background=True, max_queued=3, flush_seconds=0)
    results = [client.reward("x", 1) for _ in range(5)]
    assert [result.status for result in results] == ["queued"] * 3 + ["dropped"] * 2
    assert client.counts.num_dropped == 2
    assert not client.flush(0)
    client.close()
    assert client.counts == background.Counts(num_dropped=5)
    assert "judgements_dropped num_dropped=5" in caplog.text
    assert client.reward("x", 1).status == "dropped"


def test_what_is_refused_is_said_in_the_log_and_counted(
    client_of: Make, middleman: Middleman, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = client_of(background=True, flush_seconds=40)
    client.rewards([(name, 99), (name, 1)])
    assert client.flush()
    assert (client.counts.num_sent, client.counts.num_failed) == (1, 1)
    assert [record.levelno for record in caplog.records if "refused" in record.getMessage()] == [
        logging.WARNING
    ]


def test_what_patience_cannot_mend_is_given_up(client_of: Make, caplog: pytest.LogCaptureFixture) -> None:
    client = client_of(NOWHERE, background=True, max_retries=1, flush_seconds=40)
    client.reward("x", 1)
    assert client.flush()
    assert client.counts.num_failed == 1
    assert "unreachable" in caplog.text


@pytest.mark.parametrize(("max_retries", "num_asked"), [(0, 1), (2, 3)])
def test_the_background_tries_as_often_as_its_caller_says(
    client_of: Make, middleman: Middleman, max_retries: int, num_asked: int
) -> None:
    middleman.own_answers = [OwnAnswer(503)] * 9
    client = client_of(background=True, max_retries=max_retries, flush_seconds=40)
    client.reward("x", 1)
    assert client.flush()
    assert (len(middleman.seen), client.counts.num_failed) == (num_asked, 1)


def test_the_order_of_judgements_is_kept(
    client_of: Make, middleman: Middleman, events: Events, name: str
) -> None:
    client = client_of(background=True, flush_seconds=40)
    for value in (0.1, 0.2, 0.3):
        client.reward(name, value)
        client.compare(name, "x")
    assert client.flush()
    assert [event.value for event in events(name) if event.metric == "reward"] == [0.1, 0.2, 0.3]


async def test_an_asynchronous_client_has_a_background_too(
    middleman: Middleman, events: Events, name: str
) -> None:
    async with AsyncClient(background=True, flush_seconds=40) as client:
        assert (await client.reward(name, 0.5)).status == "queued"
        assert await client.flush()
        assert client.counts.num_sent == 1
    assert len(events(name)) == 1


def test_a_fork_has_a_queue_of_its_own(proxy: RunningProxy, name: str) -> None:
    code = f"""
import os
from slipstream import Client
client = Client(background=True, flush_seconds=40)
client.reward("{name}-parent", 1)
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
else:
    client.reward("{name}-child", 1)
"""
    done = program(code, proxy.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert count(proxy, name) == 2


def test_many_threads_may_use_one_client(
    client_of: Make, middleman: Middleman, proxy: RunningProxy, name: str
) -> None:
    client = client_of(background=True, flush_seconds=40)
    threads = [
        threading.Thread(target=lambda n=n: [client.reward(f"{name}-{n}-{k}", 1) for k in range(20)])
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.flush()
    assert count(proxy, name) == 160
