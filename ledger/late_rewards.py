"""A reward on a trajectory whose group was trained, or left out: what becomes of it.

Called in the transaction that writes the reward, once a batch, behind its events. The projects' recording locks are
held (shared at least), so are the trajectories (FOR KEY SHARE); take groups by id, then change trajectories by id.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from ledger.direct import DirectConnection
from ledger.meanings import Meaning


@dataclass(frozen=True, slots=True)
class LateReward:
    """`group_id` is the closed group that its trajectory was in when it was looked up."""

    trajectory_id: UUID
    group_id: UUID

    @classmethod
    def of(cls, meaning: Meaning) -> Self:
        assert meaning.trajectory_id
        assert meaning.group_id
        return cls(meaning.trajectory_id, meaning.group_id)


def move_late(asked: DirectConnection, late: Sequence[LateReward]) -> None:
    """The reward is kept, and counts in views; its trajectory stays where it is."""
