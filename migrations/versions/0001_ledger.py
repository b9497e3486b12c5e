"""The ledger: all tables, DEFAULT partitions, the v1 views and the read-only role.

Frozen: the SQL beside this file never changes once released. Months are made by ledger.partitions.

Revision ID: 0001
"""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_PARTS = ("tenancy", "traffic", "rewards", "learning", "storage", "views", "views_learning", "reader")
_TABLES = (
    "step_samples, training_steps, reward_events, exchanges, trajectory_names, trajectories, groups, "
    "policy_versions, policies, api_keys, projects"
)


def _run(sql: str) -> None:
    """Many statements at once, and no % is a parameter."""
    op.get_bind().exec_driver_sql(sql, execution_options={"no_parameters": True})


def upgrade() -> None:
    for part in _PARTS:
        _run(Path(__file__).with_name(f"0001_{part}.sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    _run("DROP SCHEMA v1 CASCADE")
    _run(f"DROP TABLE {_TABLES}")
