"""Trajectories that prove to be one: which of them stays."""

from collections.abc import Iterable, Mapping
from uuid import UUID

Member = tuple[UUID, UUID]  # a trajectory, and an exchange of it


def unite(
    pairs: Iterable[tuple[Member, Member]], closed: set[UUID], began: Mapping[UUID, UUID]
) -> dict[UUID, UUID]:
    """Trajectory -> the one that it becomes part of, for those that do: the one that began first.

    One whose group is `closed` (no longer open) never changes: it stays, and the others go to it.
    `began`: the first exchange of those that are recorded.
    Example: pairs (A 1, B 3) and (B 3, C 5) -> B and C become part of A; of B, if B is closed.
    """
    first = dict(began)
    of: dict[UUID, set[UUID]] = {}
    for pair in pairs:
        for trajectory_id, exchange_id in pair:
            first[trajectory_id] = min(exchange_id, first.get(trajectory_id, exchange_id))
            of.setdefault(trajectory_id, {trajectory_id})
        one, other = of[pair[0][0]], of[pair[1][0]]
        if one is not other:
            one |= other
            of |= dict.fromkeys(other, one)
    into: dict[UUID, UUID] = {}
    for trajectory_id, together in of.items():
        stays = min(together, key=lambda id_: (id_ not in closed, first[id_], id_))
        if trajectory_id != stays and trajectory_id not in closed:
            into[trajectory_id] = stays
    return into
