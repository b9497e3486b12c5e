"""Identification and retries: columns of exchanges, and the indexes of the two look-ups that recording makes.

Safe on big tables: the first part reads no row; then each partition is checked and indexed without holding up a
writer. Every part may be repeated, so a migration that was broken off in the middle is simply started again.

Revision ID: 0003
"""

from pathlib import Path

from alembic import op
from sqlalchemy import text

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_COLUMNS = (
    "key_id, request_sha256, num_retries, identified_by, conversation_sha256, continues_sha256, prompt_index"
)
_INDEXES = {
    "request": "(request_sha256, id) WHERE request_sha256 IS NOT NULL",
    "retries": "(request_sha256, id) WHERE num_retries > 0",
    "conversation": "(conversation_sha256, id) WHERE conversation_sha256 IS NOT NULL",
    "awaiting": "(continues_sha256, id) WHERE continues_sha256 IS NOT NULL AND identified_by = 'new'",
}
_PARTITIONS = text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'exchanges'::regclass")
_HAS_INDEX = text("""
    SELECT EXISTS (
        SELECT FROM pg_inherits AS i JOIN pg_index AS x ON x.indexrelid = i.inhrelid
        WHERE i.inhparent = CAST(:index AS regclass) AND x.indrelid = CAST(:partition AS regclass)
    )
""")


def _run(sql: str) -> None:
    """Many statements at once, and no % is a parameter."""
    op.get_bind().exec_driver_sql(sql, execution_options={"no_parameters": True})


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def upgrade() -> None:
    _run(_read("0003_traffic.sql"))
    for name, definition in _INDEXES.items():
        _run(f"CREATE INDEX IF NOT EXISTS ix_exchanges_{name} ON ONLY exchanges {definition}")
    with op.get_context().autocommit_block():
        _run("ALTER TABLE exchanges VALIDATE CONSTRAINT ck_exchanges_identified_by_known")
        for partition in op.get_bind().scalars(_PARTITIONS).all():
            for name, definition in _INDEXES.items():
                _index(partition, name, definition)


def _index(partition: str, name: str, definition: str) -> None:
    """A partition made meanwhile has the index already. What a broken build left behind is not valid: it goes."""
    parent, index = f"ix_exchanges_{name}", f"{partition}_{name}_idx"
    if op.get_bind().scalar(_HAS_INDEX, {"index": parent, "partition": partition}):
        return
    _run(f"DROP INDEX CONCURRENTLY IF EXISTS {index}")
    _run(f"CREATE INDEX CONCURRENTLY {index} ON {partition} {definition}")
    _run(f"ALTER INDEX {parent} ATTACH PARTITION {index}")


def downgrade() -> None:
    """The view as 0001 made it; it held nothing that the older columns do not hold."""
    _run("DROP VIEW v1.exchanges")
    statements = [part for part in _read("0001_views.sql").split(";\n") if " v1.exchanges" in part]
    _run(";\n".join(statements))
    _run(_read("0001_reader.sql"))
    _run(f"ALTER TABLE exchanges {', '.join(f'DROP COLUMN {name}' for name in _COLUMNS.split(', '))}")
