"""Shows that a running system learns: calls with four choices each, a reward for each choice, then the next version answers.

    OPENAI_API_KEY=KEY python docker/smoke.py [http://127.0.0.1:4000]

Standard library only, the public interface only. It teaches short answers, which any model can learn in one step.
"""

import json
import os
import sys
import time
from typing import Any
from urllib.request import Request, urlopen

BASE = sys.argv[1].rstrip("/") if len(sys.argv) > 1 else "http://127.0.0.1:4000"
KEY = os.environ.get("OPENAI_API_KEY", "any")
TOPICS = ("rain", "bread", "the moon", "a river", "glass", "trees", "salt", "wind")
CHOICES = 4
DEADLINE_SECONDS = 900


def post(path: str, body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    request = Request(BASE + path, json.dumps(body).encode(), headers)  # noqa: S310
    with urlopen(request, timeout=300) as reply:  # noqa: S310 - the operator's own address
        return json.load(reply), {name.lower(): value for name, value in reply.headers.items()}


def ask(topic: str, choices: int = 1) -> tuple[dict[str, Any], int]:
    """(the reply, the version that answered)"""
    messages = [{"role": "user", "content": f"What is {topic}?"}]
    body = {"messages": messages, "n": choices, "max_tokens": 24, "temperature": 1.0}
    reply, headers = post("/v1/chat/completions", body)
    return reply, int(headers["x-model-version"])


def teach(topic: str) -> int:
    """Ask, and reward each choice: 1 for the shortest, 0 for the longest. Returns the version that answered."""
    reply, version = ask(topic, CHOICES)
    lengths = [len(choice["message"]["content"]) for choice in reply["choices"]]
    spread = max(lengths) - min(lengths) or 1
    for choice, length in zip(reply["choices"], lengths, strict=True):
        reward = (max(lengths) - length) / spread
        post(f"/v1/trajectories/{reply['id']}/reward", {"reward": reward, "choice": choice["index"]})
    return version


def main() -> None:
    began, before = time.monotonic(), 0
    for topic in TOPICS:
        before = teach(topic)
        sys.stdout.write(f"{topic}: {CHOICES} choices answered by version {before}, rewarded\n")
    while time.monotonic() - began < DEADLINE_SECONDS:
        _, version = ask("sand")
        if version > before:
            sys.stdout.write(f"version {version} answers after {time.monotonic() - began:.0f} s\n")
            return
        time.sleep(2)
    sys.exit(f"still version {before} after {DEADLINE_SECONDS} s: see the worker's log")


if __name__ == "__main__":
    main()
