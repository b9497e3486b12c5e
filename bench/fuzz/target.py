"""What is shot at: a proxy with short limits, its ledger, and a mock vLLM that answers anything."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.gateway.children import Tree, environment, python, started
from bench.gateway.slipstream import running_ledger, running_slipstream
from slipstream.http import ask_http, call
from slipstream.local.child import ChildSpec
from slipstream.local.ports import free_ports

_SHORT = {
    "SLIPSTREAM_HEADER_SECONDS": "3",
    "SLIPSTREAM_BODY_SECONDS": "3",
    "SLIPSTREAM_KEEP_ALIVE_SECONDS": "4",
}
_FAULTS = ("Traceback", "_broken", "Exception in callback", "never retrieved", "was never awaited")


@dataclass(frozen=True)
class Target:
    port: int
    tree: Tree
    database_url: str
    upstream: int
    log: Path

    def seen_calls(self) -> list[str]:
        """Ids of the calls that reached the mock."""
        seen: list[str] = call(f"http://127.0.0.1:{self.upstream}/bench/seen")[1]
        return seen

    def faults_in_log(self) -> list[str]:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line for line in lines if any(word in line for word in _FAULTS)]

    def num_open_files(self) -> int:
        return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in self.tree.pids())


@contextmanager
def running_target(directory: Path) -> Iterator[Target]:
    (upstream,) = free_ports(1)
    url = f"http://127.0.0.1:{upstream}/health"
    command = python("-m", "bench.fuzz.upstream", str(upstream))
    mock = ChildSpec("mock", "Its log says why.", lambda: ask_http(url), command, environment())
    with (
        started(mock, directory),
        running_ledger(directory) as ledger,
        running_slipstream(directory, upstream, ledger, settings=_SHORT) as proxy,
    ):
        assert proxy.tree
        yield Target(proxy.port, proxy.tree, ledger.url, upstream, directory / f"{proxy.name}.log")
