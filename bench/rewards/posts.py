"""What the clients of the bench post: a thumb on a reply, with an idempotency id, over kept-alive connections.

Invariant: no two posts of a run have the same idempotency id, so each that is answered `recorded` is one event.
"""

import json
from collections.abc import Sequence

_HEAD = (
    "POST /v1/trajectories/chatcmpl-{target}/reward HTTP/1.1\r\n"
    "host: 127.0.0.1\r\n"
    "accept: */*\r\n"
    "accept-encoding: gzip, deflate\r\n"
    "connection: keep-alive\r\n"
    "user-agent: python-httpx/0.28.1\r\n"
    "content-type: application/json\r\n"
    "content-length: {length}\r\n\r\n{body}"
)


def reward_post(targets: Sequence[str], number: int) -> bytes:
    """Post `number`: every reply is judged in its turn, and judged again, otherwise, once all have been."""
    num_rounds, place = divmod(number, len(targets))
    body = json.dumps({"reward": (number + num_rounds) % 2, "id": f"bench-{number}"})
    return _HEAD.format(target=targets[place], length=len(body), body=body).encode()
