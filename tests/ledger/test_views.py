import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

VIEWS = {"trajectories", "exchanges", "rewards", "groups", "versions", "steps", "lineage"}
UNCOMMENTED = text("""
    SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace IN ('v1'::regnamespace, 'public'::regnamespace) AND c.relkind IN ('r', 'p', 'v')
        AND NOT c.relispartition AND c.relname <> 'alembic_version'
        AND a.attnum > 0 AND NOT a.attisdropped AND col_description(c.oid, a.attnum) IS NULL
""")


def test_schema_v1_holds_the_documented_views(connection: Connection) -> None:
    found = connection.execute(text("SELECT viewname FROM pg_views WHERE schemaname = 'v1'")).scalars()
    assert set(found) == VIEWS


def test_every_column_explains_itself(connection: Connection) -> None:
    assert connection.execute(UNCOMMENTED).scalars().all() == []


@pytest.mark.parametrize("view", sorted(VIEWS))
def test_the_reader_reads_each_view(connection: Connection, view: str) -> None:
    connection.execute(text("SET ROLE slipstream_reader"))
    assert connection.execute(text(f"SELECT * FROM v1.{view}")).all() == []


@pytest.mark.parametrize(
    "statement", ["SELECT * FROM api_keys", "DELETE FROM v1.versions", "CREATE TABLE v1.t ()"]
)
def test_the_reader_reads_nothing_else_and_writes_nothing(connection: Connection, statement: str) -> None:
    connection.execute(text("SET ROLE slipstream_reader"))
    with pytest.raises(DBAPIError, match=r"permission denied|cannot delete"):
        connection.execute(text(statement))
