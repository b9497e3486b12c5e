"""Erasure: who was erased, what is erased when it comes later, which files left; and how a user's rows are found.

Safe on big tables: the first part reads no row; then each partition is checked and indexed without holding up a
writer. Every part may be repeated.

Revision ID: 0008
"""

from pathlib import Path

from alembic import op
from sqlalchemy import text

from migrations.indexes import build_index

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_CHECKS = {
    "exchanges": "ck_exchanges_untrainable_reason_known",
    "step_samples": "ck_step_samples_reason_known",
    "groups": "ck_groups_reason_known",
}
_USER = '(project_id, "left"(({value}), 256)) WHERE ({value}) IS NOT NULL'
_INDEXES = {
    "ix_exchanges_user": ("exchanges", _USER.format(value="request ->> 'user'")),
    "ix_exchanges_safety_identifier": ("exchanges", _USER.format(value="request ->> 'safety_identifier'")),
    "ix_exchanges_metadata_user_id": ("exchanges", _USER.format(value="request #>> '{metadata,user_id}'")),
    "ix_trajectories_end_user": ("trajectories", _USER.format(value="end_user")),
}
_VIEWS = ("v1.exchanges", "v1.trajectories")
_FILES_BEFORE = ("0001_views.sql", "0003_traffic.sql", "0004_external.sql", "0007_views.sql")
_CHECK = text("""
    SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = CAST(:table AS regclass) AND conname = :name
""")


def _run(sql: str) -> None:
    """Many statements at once, and no % is a parameter."""
    op.get_bind().exec_driver_sql(sql, execution_options={"no_parameters": True})


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def upgrade() -> None:
    _run(_read("0008_erasure.sql"))
    _run(_read("0008_views.sql"))
    for name, (table, definition) in _INDEXES.items():
        build_index(table, name, definition)
    with op.get_context().autocommit_block():
        for table, name in _CHECKS.items():
            _run(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}")


def downgrade() -> None:
    """Refused where something was erased: the older schema has no word for why such a row teaches nothing."""
    _run(f"DROP VIEW {', '.join(_VIEWS)}")
    _run(_views_before())
    _run(_read("0001_reader.sql"))
    for name in _INDEXES:
        _run(f"DROP INDEX IF EXISTS {name}")
    for table, name in _CHECKS.items():
        check = op.get_bind().scalar(_CHECK, {"table": table, "name": name})
        older = str(check).replace(", 'erased'::text", "")
        _run(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        _run(f"ALTER TABLE {table} ADD CONSTRAINT {name} {older}")
    _run("ALTER TABLE exchanges DROP COLUMN erased_at")
    _run("ALTER TABLE trajectories DROP COLUMN erased_at")
    _run("DROP TABLE exports, tombstones, erasures")


def _views_before() -> str:
    """As 0007 made them, with every comment on them up to then."""
    views = [
        part
        for part in _read("0007_views.sql").split(";\n")
        if any(f"VIEW {view} AS" in part for view in _VIEWS)
    ]
    parts = [part for name in _FILES_BEFORE for part in _read(name).split(";\n")]
    comments = [
        part
        for part in parts
        if part.lstrip().startswith("COMMENT ON ") and any(f" {view}" in part for view in _VIEWS)
    ]
    return ";\n".join([*views, *comments])
