"""Check of learning: what the newest step of each policy waits for, or why it failed."""

from typing import Any

from sqlalchemy import text

from slipstream.doctor.finding import Finding, good, note, wrong
from slipstream.doctor.ledger import asked_of_ledger
from slipstream.running import Running

ORPHANED_SECONDS = 300  # after a lease that ran out, the next tick goes on: minutes mean that nobody ticks
_NEWEST = text("""
    SELECT DISTINCT ON (s.policy_id) p.name, s.version, s.state, s.attempt, s.reason,
        s.lease_expires_at < now() - make_interval(secs => :orphaned) AS is_orphaned
    FROM training_steps AS s JOIN policies AS p ON p.id = s.policy_id
    ORDER BY s.policy_id, s.created_at DESC
""")
_ENDED = ("published", "skipped", "failed")


def check_steps(running: Running) -> list[Finding]:
    """Nothing where the database does not answer: its own check says so."""
    orphaned = {"orphaned": ORPHANED_SECONDS}
    rows = asked_of_ledger(running, lambda connection: list(connection.execute(_NEWEST, orphaned)))
    return [finding_of(row) for row in rows]


def finding_of(row: Any) -> Finding:
    """A step without a living lease, for minutes, has no worker; one with a reason says itself what it waits for."""
    what = f"{row.name}: version {row.version} is {row.state}"
    if row.state not in _ENDED and row.is_orphaned:
        return wrong("steps", f"{what}, and nobody goes on with it", "Start a worker, and see its log.")
    if row.state == "failed":
        return note(
            "steps", f"{what}: {row.reason}", "Its groups are set aside; the next batch makes the version."
        )
    if row.state not in _ENDED and row.reason:
        return note("steps", f"{what} and waits: {row.reason}", "It goes on by itself once that is mended.")
    if row.state == "skipped":
        return note("steps", f"{what}: {row.reason}")
    return good("steps", f"{what} (attempt {row.attempt})", version=row.version)
