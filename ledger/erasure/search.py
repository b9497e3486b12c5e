"""Which trajectories hold something of a subject that is not erased yet. Erased rows name nobody, so a search ends.

A user is found by what the request says (three places, each with an index) and by the trajectory's own `end_user`,
which outlives a request that was lost.
"""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, select, text

from ledger.erasure.subject import Subject
from ledger.errors import ChoiceNeededError
from ledger.rewards.targets import resolve
from ledger.tables import projects
from ledger.tables.exchanges import USERS
from ledger.vocabulary import ErasureSubject


def _named(value: str) -> str:
    """A condition that the index of this value answers."""
    return f'("left"({value}, 256) = "left"(:name, 256) AND {value} = :name AND ({value}) IS NOT NULL)'


_BY_REQUEST = " UNION ALL ".join(
    f"SELECT trajectory_id FROM exchanges WHERE project_id = :project_id AND {_named(value)}"  # noqa: S608 - constants
    for value in USERS.values()
)
_OF_USER = text(f"""
    SELECT DISTINCT trajectory_id FROM (
        {_BY_REQUEST}
        UNION ALL SELECT id FROM trajectories WHERE project_id = :project_id AND {_named("end_user")}
    ) AS found LIMIT :limit
""")  # noqa: S608 - constants
# A trajectory with siblings may have become part of another: its exchange went along, its run did not.
_OF_TRAJECTORY = text("""
    SELECT id FROM trajectories WHERE id = :id AND erased_at IS NULL
    UNION SELECT trajectory_id FROM exchanges WHERE trajectory_id = :id AND erased_at IS NULL
    UNION SELECT sibling.id FROM sibling_runs AS run JOIN trajectories AS sibling ON sibling.id = ANY (run.sibling_ids)
        WHERE (run.trajectory_id = :id OR run.exchange_id = ANY (ARRAY(SELECT id FROM exchanges WHERE trajectory_id = :id)))
            AND sibling.erased_at IS NULL
""")


def find_trajectories(
    connection: Connection, project_id: UUID, subject: Subject, limit: int
) -> Sequence[UUID]:
    """Up to so many, in no order."""
    if subject.kind is ErasureSubject.USER:
        values = {"project_id": project_id, "name": subject.storable, "limit": limit}
        return connection.scalars(_OF_USER, values).all()
    found = trajectory_of(connection, project_id, subject.name)
    return connection.scalars(_OF_TRAJECTORY, {"id": found}).all() if found else []


def trajectory_of(connection: Connection, project_id: UUID, name: str) -> UUID | None:
    """By its id, by a reply's id (the first choice's) or by the caller's own; None where there is none, yet."""
    try:
        judged = resolve(connection, project_id, name, None)
    except ChoiceNeededError:
        judged = resolve(connection, project_id, name, 0)
    return judged.trajectory_id if judged else None


def other_projects(connection: Connection, project: str, user: str) -> list[str]:
    """Names of those in which this user has rows, for an operator who sees all tenants."""
    subject = Subject(ErasureSubject.USER, user)
    others = connection.execute(
        select(projects.c.id, projects.c.name).where(projects.c.name != project)
    ).all()
    return sorted(other.name for other in others if find_trajectories(connection, other.id, subject, 1))
