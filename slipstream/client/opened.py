"""Which trajectories are open here: in this thread, in this asyncio task. The innermost is the current one.

A context variable, so that concurrent trajectories never see each other; a new asyncio task sees those in which it was
begun, a new thread sees none.
"""

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstream.client.trajectory import Trajectory

_opened: ContextVar["tuple[Trajectory, ...]"] = ContextVar("slipstream_trajectories", default=())


def current_trajectory() -> "Trajectory | None":
    """The innermost trajectory that is open here."""
    opened = _opened.get()
    return opened[-1] if opened else None


def enter(trajectory: "Trajectory") -> None:
    _opened.set((*_opened.get(), trajectory))


def leave(trajectory: "Trajectory") -> None:
    """Also where it was entered in another context, as by a generator: then it is not there, and nothing happens."""
    opened = list(_opened.get())
    for at in reversed(range(len(opened))):
        if opened[at] is trajectory:
            del opened[at]
            break
    _opened.set(tuple(opened))
