"""External models: an exchange that no version of a policy produced says so by having none.

Safe on big tables: only the catalogue changes, no row is read.

Revision ID: 0004
"""

from pathlib import Path

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    sql = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(sql, execution_options={"no_parameters": True})


def downgrade() -> None:
    """Refused by Postgres while there are such rows: nothing may claim that a version produced them."""
    op.execute("ALTER TABLE step_samples ALTER COLUMN staleness SET NOT NULL")
    op.execute("ALTER TABLE exchanges ALTER COLUMN version SET NOT NULL")
