"""Everything that stands on the stage: the mock, the ledger, the contenders. All of them frozen until their turn."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.gateway.children import environment, python, started
from bench.gateway.contender import Contender
from bench.gateway.figures import FLOOR, NOTHING, OURS, TODAY
from bench.gateway.litellm import running_litellm
from bench.gateway.nginx import running_nginx
from bench.gateway.slipstream import Ledger, running_ledger, running_slipstream
from slipstream.http import ask_http
from slipstream.local.child import ChildSpec
from slipstream.local.ports import free_ports

KNOWN = (NOTHING, FLOOR, OURS, TODAY)


@dataclass(frozen=True)
class Stage:
    directory: Path
    upstream: int
    ledger: Ledger
    contenders: list[Contender]

    @contextmanager
    def another(self, name: str = OURS, *, num_workers: int = 1) -> Iterator[Contender]:
        """A fresh proxy, for measures that need one of their own."""
        self.ledger.tree.thaw()
        with running_slipstream(
            self.directory, self.upstream, self.ledger, num_workers=num_workers, name=name
        ) as fresh:
            fresh.freeze()
            yield fresh


@contextmanager
def set_up(directory: Path, names: list[str], report: Callable[[str], None]) -> Iterator[Stage]:
    with ExitStack() as stack:
        upstream = stack.enter_context(_running_mock(directory))
        ledger = stack.enter_context(running_ledger(directory))
        contenders = []
        for name in names:
            report(f"starting {name}")
            contender = stack.enter_context(_running(name, directory, upstream, ledger, report))
            contender.freeze()
            contenders.append(contender)
        yield Stage(directory, upstream, ledger, contenders)


@contextmanager
def _running(
    name: str, directory: Path, upstream: int, ledger: Ledger, report: Callable[[str], None]
) -> Iterator[Contender]:
    if name == NOTHING:
        yield Contender(NOTHING, upstream)
    elif name == FLOOR:
        with running_nginx(directory, upstream) as contender:
            yield contender
    elif name == TODAY:
        with running_litellm(directory, upstream, report) as contender:
            yield contender
    else:
        ledger.tree.thaw()
        with running_slipstream(directory, upstream, ledger) as contender:
            yield contender


@contextmanager
def _running_mock(directory: Path) -> Iterator[int]:
    (port,) = free_ports(1)
    spec = ChildSpec(
        "mock",
        "Its log says why.",
        lambda: ask_http(f"http://127.0.0.1:{port}/health"),
        python("-m", "bench.gateway.upstream", str(port)),
        environment(),
    )
    with started(spec, directory):
        yield port
