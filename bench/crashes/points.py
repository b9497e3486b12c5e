"""The points of a step at which something happens to its worker, and what.

A point is either a commit (of the transaction that moves a step into a state; just before, or just after) or a call of a
function. Nothing of this is in the product: the bench's own entry wraps it (bench.crashes.hooks).
"""

from dataclasses import dataclass
from enum import StrEnum


class Act(StrEnum):
    DIE = "die"  # SIGKILL
    STOP = "stop"  # SIGSTOP: heartbeat and all, until somebody says SIGCONT
    HOLD = "hold"  # wait in the middle of the work; the heartbeat goes on
    AHEAD = "ahead"  # the wall clock jumps a day ahead
    BEHIND = "behind"  # or a day back


@dataclass(frozen=True)
class Commit:
    """Of the transition into `state`. `is_after`: Postgres has it, and the worker does not know yet."""

    state: str
    is_after: bool

    @property
    def name(self) -> str:
        return f"{self.state}: just {'after' if self.is_after else 'before'} its commit"


@dataclass(frozen=True)
class Call:
    """The `nth` call of `owner.attribute`; `owner` is "module" or "module:Class"."""

    name: str
    owner: str
    attribute: str
    nth: int = 1


Point = Commit | Call
MIDDLE = Call("in the middle of the batch", "trainer.update", "row_loss", 2)
BEFORE_SAVE = Call("updated, before its files", "trainer.transitions", "hold")
BEFORE_LIVE = Call("probed, before live moves", "trainer.transitions", "to_published")
HALF_LOADED = Call("one of two replicas has it", "trainer.replica:Replica", "load", 2)

COMMITS: list[Point] = [
    Commit(state, is_after)
    for state in ("claimed", "built", "updated", "saved", "published")
    for is_after in (False, True)
]
CALLS: list[Point] = [
    MIDDLE,
    Call("files written aside, checkpoint not renamed", "trainer.adapter_files", "sync_path"),
    Call("checkpoint renamed, adapter not", "trainer.checkpoint", "write_directory", 2),
    Call("adapter renamed, not recorded", "trainer.transitions", "to_saved"),
    HALF_LOADED,
    Call("loaded, not probed", "trainer.replica:Replica", "probe"),
    BEFORE_LIVE,
    Call("published, old versions not unloaded", "trainer.step", "unload_old_versions"),
]
SET_ASIDE: list[Point] = [Commit("failed", is_after) for is_after in (False, True)]
NOTHING_LEARNED: list[Point] = [Commit("skipped", is_after) for is_after in (False, True)]


@dataclass(frozen=True)
class Fault:
    """What happens to a worker at a point, once for each time that it is armed."""

    point: Point
    act: Act = Act.DIE
