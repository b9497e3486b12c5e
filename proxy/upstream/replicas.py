"""The vLLM servers behind the proxy, and which of them may answer for a version.

Invariant (I8): a call is sent to a replica only if that replica was seen to hold the version's adapter.
A replica that comes back without its adapters gets them loaded before it gets calls.
"""

import asyncio
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import structlog

from proxy.errors import UpstreamUnavailableError
from proxy.live import Target, unknown_model
from proxy.metrics import Metrics
from proxy.upstream.choice import Leeway, chosen
from proxy.upstream.vllm import Loading, VllmClient, VllmSilentError, VllmUnreachableError

log = structlog.get_logger()
_MAX_SILENT_CHECKS = 3


class ReplicaState(StrEnum):
    DOWN = "down"
    LOADING = "loading"  # it answers, but lacks a live version
    READY = "ready"


class Replica:
    def __init__(self, url: str) -> None:
        self.url = url
        self.state = ReplicaState.DOWN
        self.models: set[str] = set()
        self.num_inflight = 0
        self.num_silent_checks = 0
        self.problem: str | None = "not seen yet"
        self.loading = asyncio.Lock()
        self.checking = asyncio.Lock()  # for a call that failed
        self.num_checks = 0  # of these, begun and not given up


class Replicas:
    def __init__(
        self,
        urls: Iterable[str],
        client: VllmClient,
        adapters: Path,
        metrics: Metrics,
        leeway: Leeway = Leeway(),  # noqa: B008 - a frozen value
    ) -> None:
        self.all = [Replica(url) for url in urls]
        self._client = client
        self._adapters = adapters.absolute()
        self._metrics = metrics
        self._leeway = leeway
        self._wanted: list[Target] = []
        self._changed = asyncio.Event()

    def want(self, targets: list[Target]) -> None:
        """From now on a replica is ready when it holds all of these."""
        self._wanted = targets
        for replica in self.all:
            self._judge(replica)

    async def watch(self, every_seconds: float) -> None:
        """Runs until cancelled. Each replica has its own loop: a slow one delays no other."""
        await asyncio.gather(*(self._watch(replica, every_seconds) for replica in self.all))

    async def _watch(self, replica: Replica, every_seconds: float) -> None:
        while True:
            await self.check(replica)
            await asyncio.sleep(every_seconds)

    async def check(self, replica: Replica) -> None:
        """Asks what the replica serves, and loads what it lacks."""
        try:
            replica.models = await self._client.models(replica.url)
        except VllmUnreachableError as error:
            self.mark_down(replica, str(error))
            return
        except VllmSilentError as error:
            replica.num_silent_checks += 1  # a busy server is no dead one
            if replica.num_silent_checks >= _MAX_SILENT_CHECKS:
                self.mark_down(replica, str(error))
            return
        replica.num_silent_checks = 0
        for target in self._wanted:
            await self.load(replica, target)
        self._judge(replica)

    async def check_anew(self, replica: Replica) -> None:
        """As `check`, and never by one that began before: that would not know what the caller knows. Calls that fail while
        one runs share the next, so that a storm of failures asks one question at a time.
        """
        number = replica.num_checks + 1
        async with replica.checking:
            if replica.num_checks >= number:
                return
            before, replica.num_checks = replica.num_checks, number
            try:
                await self.check(replica)
            except BaseException:
                replica.num_checks = before  # its caller is gone: the next in line asks
                raise

    async def load(self, replica: Replica, target: Target) -> Loading:
        """Makes the replica hold the version. A failure is remembered in `problem`."""
        name = target.upstream_model
        async with replica.loading:
            if name in replica.models:
                return Loading.LOADED
            if target.version == 0:
                replica.problem = f"does not serve the base model {name}: check SLIPSTREAM_BASE_MODEL"
                return Loading.UNKNOWN
            result, problem = await self._client.load_adapter(replica.url, name, self._adapters / name)
        if result is Loading.LOADED:
            log.info("adapter_loaded", replica=replica.url, adapter=name)
            replica.models.add(name)
            self._judge(replica)
        else:  # nothing changed: who waits for another version is not woken
            replica.problem = f"cannot load {name}: {problem}"
            log.warning("adapter_load_failed", replica=replica.url, adapter=name, error=problem)
        return result

    async def prepare(self, target: Target) -> bool:
        """Loads a version on each reachable replica; True if one holds it, or if none is reachable at all."""
        up = [replica for replica in self.all if replica.state is not ReplicaState.DOWN]
        results = await asyncio.gather(*(self.load(replica, target) for replica in up))
        return not up or Loading.LOADED in results

    async def acquire(self, target: Target, deadline: float, affinity: bytes = b"") -> Replica:
        """A replica that holds the version, as choice.py says; waits until `deadline` (loop time) for one.

        Raises UnknownModelError for a pinned version that no replica can load, UpstreamUnavailableError after
        the wait.
        """
        while True:
            if replica := self._chosen(target, affinity):
                return replica
            try:
                async with asyncio.timeout_at(deadline):
                    if not await self._load_on_demand(target):
                        await self._changed.wait()
            except TimeoutError:
                raise self._unavailable(target) from None

    def _chosen(self, target: Target, affinity: bytes) -> Replica | None:
        name = target.upstream_model
        holding = {r.url: r for r in self.all if r.state is not ReplicaState.DOWN and name in r.models}
        if not holding:
            return None
        loads = {url: replica.num_inflight for url, replica in holding.items()}
        return holding[chosen(affinity, loads, self._leeway)]

    async def _load_on_demand(self, target: Target) -> bool:
        if any(target.upstream_model == wanted.upstream_model for wanted in self._wanted):
            return False  # the watcher loads it
        up = [replica for replica in self.all if replica.state is not ReplicaState.DOWN]
        results = [await self.load(replica, target) for replica in up[:1]]
        if target.is_pinned and target.version and Loading.UNKNOWN in results:
            raise unknown_model(target.public_model)
        return Loading.LOADED in results

    def _unavailable(self, target: Target) -> UpstreamUnavailableError:
        problems = "; ".join(f"{r.url} {r.problem or r.state}" for r in self.all)
        log.warning("upstream_unavailable", model=target.public_model, problems=problems)
        return UpstreamUnavailableError(
            f"No model server holds {target.public_model} now; try again soon.", retry_after=5
        )

    def mark_down(self, replica: Replica, problem: str) -> None:
        if replica.state is not ReplicaState.DOWN:
            log.warning("replica_lost", replica=replica.url, error=problem)
        replica.state, replica.problem = ReplicaState.DOWN, problem
        replica.models = set()
        self._publish()

    def forget(self, replica: Replica, target: Target) -> None:
        """The replica said that it does not know the version: it restarted, or someone unloaded it."""
        replica.models.discard(target.upstream_model)
        self._judge(replica)

    def _judge(self, replica: Replica) -> None:
        if not replica.models:
            return
        missing = [t for t in self._wanted if t.upstream_model not in replica.models]
        is_new = replica.state is ReplicaState.DOWN
        replica.state = ReplicaState.LOADING if missing else ReplicaState.READY
        if not missing:
            replica.problem = None
        if is_new:
            log.info("replica_found", replica=replica.url, state=replica.state)
        self._publish()

    def _publish(self) -> None:
        for state in ReplicaState:
            self._metrics.replicas.labels(state).set(sum(r.state is state for r in self.all))
        self._changed.set()
        self._changed = asyncio.Event()
