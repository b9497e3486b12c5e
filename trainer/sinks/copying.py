"""A thread for each sink that copies published steps from Postgres: what the sink does not have yet is its queue.

Invariant: training never waits for it, and nothing is dropped: a sink that fails is tried again, one that hangs hangs alone.
"""

from collections.abc import Callable
from threading import Event, Thread
from time import monotonic

import structlog
from sqlalchemy import Engine

from ledger.policies import Policy
from ledger.step_metrics import published_steps
from trainer.sinks.position import held_position
from trainer.sinks.sink import Sink, run_name

logger = structlog.get_logger()
LOOK_SECONDS = 10.0
AT_ONCE = 200
LONGEST_REST_SECONDS = 600.0
HANG_SECONDS = 60.0
END_SECONDS = 10.0


class Copying:
    """`learners` tells whose steps it copies."""

    def __init__(
        self,
        sink: Sink,
        engine: Engine,
        learners: Callable[[], list[Policy]],
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self.sink = sink
        self.num_failures = 0  # in a row
        self.busy_since: float | None = None  # monotonic; None = the library is not being waited for
        self._engine = engine
        self._learners = learners
        self._look_seconds = look_seconds
        self._ended = Event()
        self._thread = Thread(target=self._run, name=f"slipstream-{sink.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self, seconds: float = END_SECONDS) -> None:
        """Waits so long for what it is at."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def copy(self) -> int:
        """Everything that the sink lacks; how many steps that were. Raises what the library raises."""
        num_copied = 0
        for policy in self._learners():
            while num := self._copy_some(policy):
                num_copied += num
        return num_copied

    def look(self) -> float:
        """`copy`, with every failure told. Returns how long to rest."""
        try:
            if num_steps := self.copy():
                logger.info("figures_copied", sink=self.sink.name, num_steps=num_steps)
        except Exception as error:  # noqa: BLE001 - of a library we know nothing about, or Postgres is away
            self.num_failures += 1
            self._close()  # what it holds may be what is broken
            rest: float = min(self._look_seconds * 2 ** min(self.num_failures, 16), LONGEST_REST_SECONDS)
            said = f"{type(error).__name__}: {error}"[:500]
            logger.warning("sink_failed", sink=self.sink.name, error=said, rest_seconds=rest)
            return rest
        self.num_failures = 0
        return self._look_seconds

    def hangs(self) -> bool:
        """Whether the library has let it wait for a minute."""
        since = self.busy_since
        return since is not None and monotonic() - since > HANG_SECONDS

    def _copy_some(self, policy: Policy) -> int:
        num = 0
        with held_position(self.sink.folder, run_name(policy)) as position:
            if position is None:
                return 0
            with self._engine.connect() as connection:
                rows = published_steps(connection, policy.id, position.version, AT_ONCE)
            for row in rows:
                if self._ended.is_set():
                    return 0
                self._write(policy, row)
                position.move(row["version"])
                num += 1
        return num

    def _write(self, policy: Policy, row: dict[str, object]) -> None:
        self.busy_since = monotonic()
        try:
            self.sink.write(policy, row)
        finally:
            self.busy_since = None

    def _run(self) -> None:
        rest = 0.0
        while not self._ended.wait(rest):
            rest = self.look()
        self._close()

    def _close(self) -> None:
        try:
            self.sink.close()
        except Exception as error:  # noqa: BLE001 - likewise; the position says what was written
            logger.warning("sink_failed", sink=self.sink.name, error=type(error).__name__)
