"""Views for analysts, and who posted a reward.

Safe on big tables: a nullable column and views; no row is read or rewritten.

Revision ID: 0007
"""

from pathlib import Path

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def _run(sql: str) -> None:
    """Many statements at once, and no % is a parameter."""
    op.get_bind().exec_driver_sql(sql, execution_options={"no_parameters": True})


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def upgrade() -> None:
    _run(_read("0007_views.sql"))
    _run(_read("0001_reader.sql"))


def downgrade() -> None:
    """The schema as the migrations before this one made it; it held nothing that older columns do not hold."""
    _run("DROP SCHEMA v1 CASCADE")
    _run("ALTER TABLE reward_events DROP COLUMN key_id")
    for name in ("0001_views.sql", "0001_views_learning.sql"):
        _run(_read(name))
    views = [part for part in _read("0003_traffic.sql").split(";\n") if " v1.exchanges" in part]
    comments = [part for part in _read("0004_external.sql").split(";\n") if "COLUMN v1." in part]
    _run(";\n".join(views + comments))
    _run(_read("0001_reader.sql"))
