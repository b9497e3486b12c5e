"""Capture: which calls of which proxy process are committed, so that an audit finds a lost one.

Two new tables: nothing that exists is read or locked.

Revision ID: 0005
"""

from pathlib import Path

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    sql = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(sql, execution_options={"no_parameters": True})


def downgrade() -> None:
    op.drop_table("capture_hours")
    op.drop_table("capture_processes")
