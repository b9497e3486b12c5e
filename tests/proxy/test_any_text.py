"""Whatever text a client sends is answered, recorded and given back: never a 500, never a lost row."""

import json
import math
import socket
from typing import Any
from urllib.parse import urlsplit

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.text import from_storable
from tests.ledger.test_any_text import same
from tests.ledger.test_text import ANY_TEXT
from tests.proxy.running import RunningProxy, eventually

LEAF = ANY_TEXT | st.sampled_from([math.nan, math.inf, -math.inf, 10**400, "\x1aNaN", None, True])
ANY_OBJECT = st.dictionaries(ANY_TEXT, LEAF | st.lists(LEAF, max_size=2), max_size=3)
HEADER = st.binary(max_size=12).map(lambda value: bytes(b for b in value if b >= 32 and b != 127).strip())


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    call = {"id": draw(ANY_TEXT), "type": "function", "function": {"name": "f", "arguments": draw(ANY_TEXT)}}
    messages = [
        {"role": "user", "content": draw(ANY_TEXT), "name": draw(ANY_TEXT)},
        {"role": "assistant", "content": draw(ANY_TEXT), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": draw(ANY_TEXT)},
    ]
    return {
        "model": draw(ANY_TEXT), "messages": messages, "metadata": draw(ANY_OBJECT), "user": draw(ANY_TEXT),
        "extra": draw(ANY_OBJECT),
    }  # fmt: skip


def post(proxy: RunningProxy, body: dict[str, Any], headers: dict[str, bytes]) -> int:
    """By hand: a client library would refuse to send such headers."""
    sent = json.dumps(body).encode()  # \\ud83d, \\u0000, NaN: as Python's json writes them
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n"
        % len(sent)
    )
    lines = b"".join(name.encode() + b": " + value + b"\r\n" for name, value in headers.items())
    address = urlsplit(proxy.url)
    answer = b""
    with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=10) as connection:
        connection.sendall(head + lines + b"\r\n" + sent)
        while chunk := connection.recv(65536):
            answer += chunk
    return int(answer.split(b" ", 2)[1])


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(body=bodies(), headers=st.lists(HEADER, min_size=4, max_size=4))
def test_any_text_in_a_body_or_a_header_is_answered_and_recorded(
    proxy: RunningProxy, body: dict[str, Any], headers: list[bytes]
) -> None:
    """B081, B083, B084, B085."""
    names = ("X-Trajectory-Id", "X-Group-Id", "User-Agent", "X-Request-Id")
    before = len(proxy.rows("SELECT id FROM exchanges"))
    status = post(proxy, body, dict(zip(names, headers, strict=True)))
    assert status < 500
    if status != 200:
        return
    eventually(lambda: len(proxy.rows("SELECT id FROM exchanges")) > before)
    row = proxy.rows(
        "SELECT e.*, t.metadata, t.end_user FROM exchanges AS e JOIN trajectories AS t ON t.id = trajectory_id ORDER BY e.id"
    )[-1]
    said = json.loads(json.dumps(body))  # two halves of a pair that meet are one character
    assert from_storable(row.requested_model) == said["model"]
    assert from_storable(row.request)["user"] == said["user"]
    for name in ("metadata", "extra"):
        assert same(from_storable(row.request)[name], said[name])
    assert from_storable(row.messages) == said["messages"]
    assert proxy.metric("slipstream_rejected_total") == 0
    told = proxy.client.get(f"/v1/trajectories/{row.trajectory_id}")
    assert told.status_code == 200
    turns = told.json()["exchanges"]
    assert turns[-1]["messages"] == said["messages"]
    if len(turns) == 1:  # what a trajectory says of itself, it says of its first call
        assert from_storable(row.end_user) == said["user"]
        assert same(from_storable(row.metadata), said["metadata"])
