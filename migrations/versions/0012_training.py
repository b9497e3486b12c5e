"""The trainer: steps of several kinds, steps that somebody asked for, policies that pause, the shape of each adapter.

Safe on big tables: columns with constant defaults or none; steps, policies and versions are few.

Revision ID: 0012
"""

from pathlib import Path

from alembic import op
from sqlalchemy import text

from ledger.errors import LedgerError
from migrations.views import views_before

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_NEW_COLUMNS = {
    "training_steps": ("kind",),
    "policies": ("paused_at", "paused_reason"),
    "policy_versions": ("lora_rank", "lora_alpha"),
}
# What the older schema would take for something else.
_NEW_MEANINGS = {
    "steps that did not learn from rewards": "SELECT EXISTS (SELECT FROM training_steps WHERE kind <> 'grpo')",
    "policies that are paused": "SELECT EXISTS (SELECT FROM policies WHERE paused_at IS NOT NULL)",
    "steps that were asked for and not made yet": (
        "SELECT EXISTS (SELECT FROM step_requests WHERE state IN ('waiting', 'taken'))"
    ),
}
_REASONS = (("exchanges", "untrainable_reason"), ("step_samples", "reason"), ("groups", "reason"))
_CHECK = text("""
    SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = CAST(:table AS regclass) AND conname = :name
""")
_VIEWS = ("v1.steps", "v1.versions", "v1.lineage")


def _run(sql: str) -> None:
    """Many statements at once, and no % is a parameter."""
    op.get_bind().exec_driver_sql(sql, execution_options={"no_parameters": True})


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def upgrade() -> None:
    _run(_read("0012_training.sql"))
    _run(_read("0012_reasons.sql"))
    _run(_read("0012_figures.sql"))
    _run(_read("0001_reader.sql"))
    with op.get_context().autocommit_block():
        for table, column in _REASONS:
            _run(f"ALTER TABLE {table} VALIDATE CONSTRAINT ck_{table}_{column}_known")


def downgrade() -> None:
    """Refused where something is recorded that the older schema cannot say, a new reason too. Shapes of adapters and answered requests go."""
    for name, question in _NEW_MEANINGS.items():
        if op.get_bind().scalar(text(question)):
            raise LedgerError(f"the schema before 0012 has no place for what is recorded: {name}")
    for table, column in _REASONS:
        name = f"ck_{table}_{column}_known"
        known = str(op.get_bind().scalar(_CHECK, {"table": table, "name": name}))
        _run(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        older = known.replace(", 'reshaped'::text", "")
        _run(f"ALTER TABLE {table} ADD CONSTRAINT {name} {older}")
    _run(f"DROP VIEW v1.step_requests, v1.step_metrics, v1.step_drops, {', '.join(_VIEWS)}")
    _run("DROP INDEX ix_training_steps_finished_at")
    _run(views_before(revision, _VIEWS))
    _run("DROP TABLE step_requests")
    _run("ALTER TABLE step_samples ALTER COLUMN group_id SET NOT NULL")
    for table, columns in _NEW_COLUMNS.items():
        for column in columns:
            _run(f"ALTER TABLE {table} DROP COLUMN {column}")
    _run(_read("0001_reader.sql"))
