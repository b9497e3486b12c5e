"""Which schema this version of the code needs. Migrations expand first, so a newer schema serves older code too.

`REVISIONS` lists every migration up to the one that this code was written for; a test compares it with migrations/.
"""

from sqlalchemy import Connection, text

from ledger.errors import SchemaBehindError

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011", "0012")
EXPECTED_REVISION = REVISIONS[-1]


def read_revision(connection: Connection) -> str | None:
    """The revision of the database; None if it was never migrated."""
    if connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
        return None
    revision = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return None if revision is None else str(revision)


def is_sufficient(revision: str | None) -> bool:
    """Whether this code can work with a schema at `revision`: an unknown one was made by newer code."""
    return revision is not None and (revision == EXPECTED_REVISION or revision not in REVISIONS)


def check_schema(connection: Connection) -> None:
    if not is_sufficient(read_revision(connection)):
        raise SchemaBehindError
