"""A process that posts rewards until each is answered: `python -m tests.proxy.posters PORT` with the posts on its input.

One JSON object a line: {"target": …, "body": {…}}, or a list of items for POST /v1/rewards. What gets no answer, or a
503, is sent again as it was. Writes the statuses.
"""

import http.client
import json
import sys
import time
from contextlib import suppress
from typing import Any

_DEADLINE_SECONDS = 120.0


def main() -> None:
    port, answers = int(sys.argv[1]), []
    for line in sys.stdin:
        post = json.loads(line)
        if isinstance(post, list):
            answers += [item["status"] for item in sent(port, "/v1/rewards", post)["data"]]
        else:
            path = f"/v1/trajectories/{post['target']}/reward"
            answers.append(sent(port, path, post["body"])["status"])
    sys.stdout.write(json.dumps(answers))


def sent(port: int, path: str, body: Any) -> Any:
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            reply = connection.getresponse()
            raw = reply.read()
            connection.close()
            if reply.status == 200:
                return json.loads(raw)
            assert reply.status == 503, raw
        time.sleep(0.05)
    raise AssertionError("no answer")


if __name__ == "__main__":
    main()
