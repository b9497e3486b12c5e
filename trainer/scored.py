"""Which open groups have a judged member: what a tick looks at, instead of all the unjudged traffic that is open.

Between two looks at everything, only what was judged since the last tick is added. Nothing depends on it but the time a
tick takes: what it misses (a clock that is behind, trajectories that proved to be one) the next look at everything finds.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.identifiers import first_id_at

ALL_SECONDS = 600.0  # between two looks at everything
OVERLAP = timedelta(seconds=60)  # posts that were not committed yet, clocks that differ
_NOW = text("SELECT clock_timestamp()")
_ALL = text("""
    SELECT g.id FROM groups AS g WHERE g.policy_id = :policy_id AND g.state = 'open' AND EXISTS (
        SELECT FROM trajectories AS t JOIN reward_events AS e ON e.trajectory_id = t.id WHERE t.group_id = g.id
    )
""")
_SINCE = text("""
    SELECT DISTINCT t.group_id FROM reward_events AS e JOIN trajectories AS t ON t.id = e.trajectory_id
    WHERE e.id >= :first_id AND t.policy_id = :policy_id AND t.group_id IS NOT NULL
""")


@dataclass(slots=True)
class ScoredGroups:
    """Of one policy, as a worker knows them; some are closed again."""

    known: set[UUID] = field(default_factory=set)
    all_looked_at: float | None = None  # monotonic
    looked_until: datetime | None = None  # Postgres' clock

    def among(self, connection: Connection, policy_id: UUID, also: Iterable[UUID] = ()) -> list[UUID]:
        """Those that a step may take: `also` are known from elsewhere."""
        now: datetime = connection.execute(_NOW).scalar_one()
        if self.looked_until is None or self.all_looked_at is None or _is_over(self.all_looked_at):
            self.all_looked_at = monotonic()
            self.known = set(connection.scalars(_ALL, {"policy_id": policy_id}))
        else:
            values = {"policy_id": policy_id, "first_id": first_id_at(self.looked_until - OVERLAP)}
            self.known.update(connection.scalars(_SINCE, values))
        self.known.update(also)
        self.looked_until = now
        return sorted(self.known)


def _is_over(looked_at: float) -> bool:
    return monotonic() - looked_at > ALL_SECONDS
