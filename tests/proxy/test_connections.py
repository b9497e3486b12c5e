"""Connections to Postgres: as many as the docs say, and given back whatever clients do."""

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from tests.proxy.running import RunningProxy, eventually

OPERATING = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
OURS = """
    SELECT coalesce(count(*) FILTER (WHERE state <> 'idle'), 0), count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'slipstream' AND pid <> pg_backend_pid()
"""


def documented(process: str) -> int:
    """The number in the table of connections."""
    found = re.search(rf"^\| {process} \| (\d+) \|", OPERATING, re.MULTILINE)
    assert found, f"docs/operating.md does not say how many connections {process} holds"
    return int(found[1])


def connections(proxy: RunningProxy) -> tuple[int, int]:
    """Those that are in a query or a transaction, and all; the test's own one left out."""
    busy, total = proxy.rows(OURS)[0]
    return busy, total


def send_and_hang_up(proxy: RunningProxy, request: bytes) -> None:
    address = urlsplit(proxy.url)
    with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=10) as connection:
        connection.sendall(request)


def test_a_thousand_cancelled_requests_leave_no_connection_checked_out(proxy: RunningProxy) -> None:
    """B086: reading, judging and /ready ask Postgres; the client is gone before the answer."""
    reward = b'{"reward": 1}'
    requests = [
        b"GET /v1/trajectories HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/trajectories/t/reward HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"
        % (len(reward), reward),
        b"GET /v1/trajectories/t HTTP/1.1\r\nHost: x\r\n\r\n",
    ]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda number: send_and_hang_up(proxy, requests[number % 4]), range(1000)))
    eventually(lambda: connections(proxy)[0] == 0)
    assert connections(proxy)[1] <= documented("a proxy process")
    assert proxy.client.get("/v1/trajectories").status_code == 200
    assert proxy.client.post("/v1/trajectories/t/reward", json={"reward": 0.5}).status_code == 200


def test_a_proxy_holds_no_more_connections_than_the_docs_say(proxy: RunningProxy) -> None:
    """B093: under load, all pools filled."""

    def ask(number: int) -> int:
        proxy.chat(stream=number % 2 == 0)
        return proxy.client.get("/v1/trajectories").status_code

    most = 0
    with ThreadPoolExecutor(16) as pool:
        for status in pool.map(ask, range(120)):
            assert status in {200, 503}
            most = max(most, connections(proxy)[1])
    assert most <= documented("a proxy process")


def test_the_stack_fits_into_the_servers_limit(proxy: RunningProxy) -> None:
    """B093: two proxy processes, a worker and commands, on the embedded server (100) and on a small one of 50."""
    total = 2 * documented("a proxy process") + documented("a worker") + documented("a command")
    limit = int(proxy.rows("SELECT current_setting('max_connections')")[0][0])
    assert total < 50 < limit
