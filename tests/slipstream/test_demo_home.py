"""The demo around its lesson: a run that is still up is never deleted, and an exam waits for its version."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from openai import AsyncOpenAI

from examples.demo.display import Display
from examples.demo.lesson import batch_of
from examples.demo.stack import forget_last_run
from examples.demo.versions import Versions
from slipstream.errors import UsageError
from slipstream.local.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home.at(tmp_path / "demo")
    home.create()
    (home / "postgres").mkdir()
    return home


def test_a_demo_whose_stack_still_runs_is_not_deleted(home: Home) -> None:
    with home.locked(), pytest.raises(UsageError, match="slipstream down"):
        forget_last_run(home.root)
    assert (home / "postgres").exists()


def test_a_new_demo_forgets_the_last_one_but_for_the_model(home: Home) -> None:
    (home / "result.json").touch()
    forget_last_run(home.root)
    assert {path.name for path in home.root.iterdir()} <= {"models", "lock"}


def test_what_a_run_names_is_kept_too(home: Home) -> None:
    (home / "results").mkdir()
    forget_last_run(home.root, frozenset({"results"}))
    assert (home / "results").exists()
    assert not (home / "postgres").exists()


def test_practice_begins_anew_when_the_prompts_are_used_up() -> None:
    assert batch_of(list("abcdefghij"), 1, 8) == list("ijabcdef")


@pytest.fixture
def lagging_proxy() -> Iterator[tuple[str, list[int]]]:
    """Answers /ready with version 0 twice, then with version 1."""
    asked: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(len(asked))
            body = json.dumps({"live": {"orders": int(len(asked) > 2)}, "path": self.path}).encode()
            self.send_response(200 if self.path == "/ready" else 404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
        server.shutdown()
        thread.join()


async def test_an_exam_waits_until_the_proxy_follows_the_ledger(
    lagging_proxy: tuple[str, list[int]],
) -> None:
    """The step is `published` a moment before the proxy has switched: the exam would meet the version before."""
    url, asked = lagging_proxy
    client = AsyncOpenAI(base_url=url, api_key="any")
    versions = Versions(client, "orders", Display(num_steps=1), Path("worker.log"))
    versions.live = 1
    await versions.wait_until_served()
    await client.close()
    assert len(asked) == 3
