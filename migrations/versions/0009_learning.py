"""Rewards and groups: what counts, comparisons, routes and their running baselines, judges, plans.

Safe on big tables: columns with constant defaults, which rewrite nothing; then each partition is checked without
holding up a writer. Every part may be repeated.

Revision ID: 0009
"""

from pathlib import Path

from alembic import op
from sqlalchemy import text

from ledger.errors import LedgerError

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_NEW_WORDS = {
    ("exchanges", "untrainable_reason"): ("truncated", "no_baseline"),
    ("step_samples", "reason"): ("truncated", "no_baseline"),
    ("groups", "reason"): ("truncated", "no_baseline"),
    ("groups", "kind"): ("comparison",),
    ("step_samples", "baseline_kind"): ("comparison_group", "stored_group", "running"),
}
_NEW_COLUMNS = {
    "exchanges": ("is_explored", "is_shadow"),
    "trajectories": ("route", "is_shadow"),
    "groups": ("route", "reward_mean", "num_scored"),
    "reward_events": ("is_final", "is_whole", "comparison_id"),
    "step_samples": ("trajectory_reward", "reward_event_ids", "num_baseline_samples"),
    "policies": ("combination",),
}
# What the older schema would take for something else: a sibling for a user's answer, a judgement for none, or for another.
_NEW_MEANINGS = {
    "shadow siblings": "SELECT EXISTS (SELECT FROM trajectories WHERE is_shadow)",
    "comparisons": "SELECT EXISTS (SELECT FROM reward_events WHERE comparison_id IS NOT NULL)",
    "partial judgements, or of the whole by a reply's id": "SELECT EXISTS (SELECT FROM reward_events WHERE NOT is_final OR is_whole)",
    "declared metrics": "SELECT EXISTS (SELECT FROM metrics)",
    "policies that do not combine judgements by their mean": "SELECT EXISTS (SELECT FROM policies WHERE combination <> 'mean')",
}
_CHECK = text("""
    SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = CAST(:table AS regclass) AND conname = :name
""")


def _run(sql: str) -> None:
    """Many statements at once, and no % is a parameter."""
    op.get_bind().exec_driver_sql(sql, execution_options={"no_parameters": True})


def upgrade() -> None:
    _run(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))
    with op.get_context().autocommit_block():
        for table, column in _NEW_WORDS:
            _run(f"ALTER TABLE {table} VALIDATE CONSTRAINT ck_{table}_{column}_known")
        _run("DROP INDEX CONCURRENTLY IF EXISTS ix_groups_step_id")  # what an earlier attempt left unfinished
        _run("CREATE INDEX CONCURRENTLY ix_groups_step_id ON groups (step_id) WHERE step_id IS NOT NULL")


def downgrade() -> None:
    """Refused where a row says one of the new words, or means what the older schema cannot say.

    Routes, running baselines and runs of judge and siblings go. Existing rows are checked while nobody writes.
    """
    for name, question in _NEW_MEANINGS.items():
        if op.get_bind().scalar(text(question)):
            raise LedgerError(f"the schema before 0009 has no place for what is recorded: {name}")
    for (table, column), words in _NEW_WORDS.items():
        name = f"ck_{table}_{column}_known"
        older = str(op.get_bind().scalar(_CHECK, {"table": table, "name": name}))
        for word in words:
            older = older.replace(f", '{word}'::text", "")
        _run(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        _run(f"ALTER TABLE {table} ADD CONSTRAINT {name} {older}")
    for table, columns in _NEW_COLUMNS.items():
        for column in columns:
            _run(f"ALTER TABLE {table} DROP COLUMN {column}")
    _run("ALTER TABLE policies DROP CONSTRAINT ck_policies_reward_range_bounded")
    _run("DROP INDEX ix_groups_step_id")
    _run("DROP TABLE metrics, comparisons, route_baselines, plans, workers, judge_runs, sibling_runs")
