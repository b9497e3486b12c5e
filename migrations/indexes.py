"""Indexes of partitioned tables, built while traffic goes on.

Postgres has no CREATE INDEX CONCURRENTLY for a partitioned table. So: an index ON ONLY the parent, which is not valid
yet; one for each partition, concurrently; each attached. With the last one the parent's is valid. Every part may be
repeated: a build that was broken off (its index is there, but not valid) is begun again, and one that is done is not.

A concurrent build waits for transactions that are older than it, but nobody waits for the build.
"""

from alembic import op
from sqlalchemy import text

ATTACH_TIMEOUT_SECONDS = 1
_PARTITIONS = text(
    "SELECT CAST(CAST(inhrelid AS regclass) AS text) FROM pg_inherits WHERE inhparent = CAST(:table AS regclass) ORDER BY 1"
)
_HAS_INDEX = text("""
    SELECT EXISTS (
        SELECT FROM pg_inherits AS i JOIN pg_index AS x ON x.indexrelid = i.inhrelid
        WHERE i.inhparent = CAST(:index AS regclass) AND x.indrelid = CAST(:partition AS regclass)
    )
""")
_IS_VALID = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:index)")


def build_index(table: str, name: str, definition: str) -> None:
    """Index `name` of partitioned `table`; `definition` is what follows the table, such as `(seed, id) WHERE seed > 0`.

    Commits what the migration did so far. Example: build_index("exchanges", "ix_exchanges_seed", "(seed)") makes
    exchanges_2026_12_seed_idx and its like, and attaches each to ix_exchanges_seed.
    """
    _run(f"CREATE INDEX IF NOT EXISTS {name} ON ONLY {table} {definition}")
    with op.get_context().autocommit_block():
        for partition in op.get_bind().scalars(_PARTITIONS, {"table": table}).all():
            _build(partition, table, name, definition)


def _build(partition: str, table: str, parent: str, definition: str) -> None:
    """A partition made meanwhile has the index already, one that retention dropped needs none."""
    where = {"index": parent, "partition": partition}
    if op.get_bind().scalar(text("SELECT to_regclass(:partition) IS NULL"), where):
        return
    if op.get_bind().scalar(_HAS_INDEX, where):
        return
    index = f"{partition}_{parent.removeprefix('ix_').removeprefix(f'{table}_')}_idx"
    if not op.get_bind().scalar(_IS_VALID, {"index": index}):
        _run(f"DROP INDEX CONCURRENTLY IF EXISTS {index}")
        _run(f"CREATE INDEX CONCURRENTLY {index} ON {partition} {definition}")
    _run(
        f"BEGIN; SET LOCAL lock_timeout = '{ATTACH_TIMEOUT_SECONDS}s';"
        f" ALTER INDEX {parent} ATTACH PARTITION {index}; COMMIT"
    )


def _run(sql: str) -> None:
    """Many statements at once, and no % is a parameter."""
    op.get_bind().exec_driver_sql(sql, execution_options={"no_parameters": True})
