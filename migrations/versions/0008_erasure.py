"""Erasure: who was erased, what is erased when it comes later, which files left; and how a user's rows are found.

Safe on big tables: the first part reads no row; then each partition is checked and indexed without holding up a
writer. Every part may be repeated. The views get `erased_at` behind the columns that they have at that time.

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
_VIEWS = {"exchanges": "e", "trajectories": "t"}
_COMMENT = "When it was erased: its payload is gone, what the mathematics need is left; NULL = it was not."
_DEFINITION = text("SELECT pg_get_viewdef(CAST(:view AS regclass), true)")
_COMMENTS = text("""
    SELECT a.attname, col_description(a.attrelid, a.attnum) AS said FROM pg_attribute AS a
    WHERE a.attrelid = CAST(:view AS regclass) AND a.attnum > 0 AND a.attname <> 'erased_at'
    UNION ALL SELECT NULL, obj_description(CAST(:view AS regclass))
""")
_TOP_FROM = "\n   FROM "  # of the view itself: those below it stand further to the right


def _run(sql: str) -> None:
    """Many statements at once, and no % is a parameter."""
    op.get_bind().exec_driver_sql(sql, execution_options={"no_parameters": True})


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def upgrade() -> None:
    _run(_read("0008_erasure.sql"))
    for view, alias in _VIEWS.items():
        _run(f"CREATE OR REPLACE VIEW v1.{view} AS {_with_column(view, alias)}")
        _run(f"COMMENT ON COLUMN v1.{view}.erased_at IS '{_COMMENT}'")
    for name, (table, definition) in _INDEXES.items():
        build_index(table, name, definition)
    with op.get_context().autocommit_block():
        for table, name in _CHECKS.items():
            _run(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}")


def _with_column(view: str, alias: str) -> str:
    """Whatever columns the view has by now, and this one."""
    definition = str(op.get_bind().scalar(_DEFINITION, {"view": f"v1.{view}"}))
    if f"{alias}.erased_at" in definition:
        return definition
    columns, found, rest = definition.partition(_TOP_FROM)
    return f"{columns},\n    {alias}.erased_at{found}{rest}"


def downgrade() -> None:
    """Refused where something was erased: the older schema has no word for why such a row teaches nothing."""
    for view, alias in _VIEWS.items():
        _without_column(view, alias)
    _run(_read("0001_reader.sql"))
    for name in _INDEXES:
        _run(f"DROP INDEX IF EXISTS {name}")
    for table, name in _CHECKS.items():
        check = op.get_bind().scalar(
            text(
                "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = CAST(:t AS regclass) AND conname = :n"
            ),
            {"t": table, "n": name},
        )
        older = str(check).replace(", 'erased'::text", "")
        _run(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        _run(f"ALTER TABLE {table} ADD CONSTRAINT {name} {older}")
    _run("ALTER TABLE exchanges DROP COLUMN erased_at")
    _run("ALTER TABLE trajectories DROP COLUMN erased_at")
    _run("DROP TABLE exports, tombstones, erasures")


def _without_column(view: str, alias: str) -> None:
    values = {"view": f"v1.{view}"}
    definition = str(op.get_bind().scalar(_DEFINITION, values))
    comments = op.get_bind().execute(_COMMENTS, values).all()
    _run(f"DROP VIEW v1.{view}")
    _run(f"CREATE VIEW v1.{view} AS " + definition.replace(f",\n    {alias}.erased_at", ""))
    for column, said in comments:
        place = f"COLUMN v1.{view}.{column}" if column else f"VIEW v1.{view}"
        if said:
            _run(f"COMMENT ON {place} IS '{said.replace(chr(39), chr(39) * 2)}'")
