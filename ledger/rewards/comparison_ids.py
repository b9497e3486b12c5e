"""Which comparison an id names: ours, or the one that its poster gave it, as in docs/http.md.

Invariant: ids of another project are unknown.
"""

from uuid import UUID

from sqlalchemy import Connection, text

from ledger.direct import direct
from ledger.identifiers import parse_id
from ledger.rewards.comparisons import ComparisonResult, retract_comparison
from ledger.text import to_name

# Each half has the poster's id, and says which it is.
_POSTED = text("""
    SELECT e.comparison_id FROM reward_events AS e JOIN projects AS p ON p.id = e.project_id
    WHERE p.name = :project AND e.idempotency_id IN (:preferred, :other) AND e.comparison_id IS NOT NULL
    ORDER BY e.id LIMIT 1
""")


def retract_named(
    connection: Connection, project: str, name: str, key_id: UUID | None
) -> ComparisonResult | None:
    """As `retract_comparison`, by either id."""
    halves = {half: f"{to_name(name)}:{half}" for half in ("preferred", "other")}
    posted: UUID | None = direct(connection).execute(_POSTED, {"project": project, **halves}).scalar()
    id_ = posted or parse_id(name)
    return retract_comparison(connection, project, id_, key_id) if id_ else None
