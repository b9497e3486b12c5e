"""Retention: how long a project and a policy keep their rows, and the record of what was removed.

Safe on big tables: two small tables get a nullable column, one is new; no row of traffic is read.

Revision ID: 0006
"""

from pathlib import Path

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    sql = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(sql, execution_options={"no_parameters": True})


def downgrade() -> None:
    """Rows of traffic stay. What retention was told, and what it removed, has no place in the older schema."""
    op.execute("DROP TABLE removals")
    op.execute("ALTER TABLE policies DROP COLUMN retention_days")
    op.execute("ALTER TABLE projects DROP COLUMN retention_days")
