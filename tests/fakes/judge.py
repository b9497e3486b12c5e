"""A judge behind OpenAI's API on a loopback port: it reads the prompt as a model would, and answers as a test says."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.thread_server import ThreadServer

_ATTEMPT = re.compile(r'<(\w+)-attempt id="(\w+)">\n(.*?)\n</\1-attempt>', re.DOTALL)
_TASK = re.compile(r"<(\w+)-task>\n(.*?)\n</\1-task>", re.DOTALL)


@dataclass(frozen=True)
class Asked:
    """One call of the judge, as it arrived."""

    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """The prompt that both calls of a vote begin with."""
        return str(self.body["messages"][1]["content"])

    @property
    def task(self) -> str:
        found = _TASK.search(self.text)
        return found[2] if found else ""

    @property
    def attempts(self) -> dict[str, str]:
        """By id, in the order in which they are shown."""
        return {id_: block for _, id_, block in _ATTEMPT.findall(self.text)}


Answer = Callable[[Asked], str | tuple[int, dict[str, Any]]]


def scoring(score_of: Callable[[str], Any]) -> Answer:
    """Scores each attempt by its block."""
    return lambda asked: scores(**{id_: score_of(block) for id_, block in asked.attempts.items()})


def scores(**by_id: Any) -> str:
    return json.dumps(
        {"scores": [{"id": id_, "explanation": f"why {s}", "score": s} for id_, s in by_id.items()]}
    )


def same(text: str) -> Answer:
    return lambda _: text


@dataclass
class FakeJudge:
    """`answers`: one after the other; the last one stays."""

    answers: list[Answer] = field(default_factory=lambda: [scoring(lambda block: float("good" in block))])
    hangs: bool = False
    finish_reason: str = "stop"
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/v1"

    def forget(self) -> None:
        self.answers, self.hangs, self.finish_reason = FakeJudge().answers, False, "stop"
        self.asked.clear()

    def start(self) -> None:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/chat/completions", self._answer)
        self.server = ThreadServer("fake-judge", app, 0, aborts=True)
        self.server.start()

    async def _answer(self, request: web.Request) -> web.Response:
        asked = Asked({k.lower(): v for k, v in request.headers.items()}, await request.json())
        self.asked.append(asked)
        if self.hangs:
            await asyncio.sleep(60)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        said = answer(asked)
        if isinstance(said, tuple):
            return web.json_response(said[1], status=said[0])
        message = {"role": "assistant", "content": said}
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        head = {
            "id": "chatcmpl-judge",
            "object": "chat.completion",
            "created": 1,
            "model": asked.body["model"],
        }
        return web.json_response({**head, "choices": [choice], "usage": usage})


@contextmanager
def running_fake_judge() -> Iterator[FakeJudge]:
    fake = FakeJudge()
    fake.start()
    try:
        yield fake
    finally:
        fake.server.stop()
