"""What became of each row, as columns of the views that show it; what judges did, as a view.

Safe on big tables: views only; no row is read or rewritten.

Revision ID: 0011
"""

from pathlib import Path

from alembic import op

from migrations.views import views_before

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_VIEWS = ("v1.exchanges", "v1.trajectories")


def _run(sql: str) -> None:
    """Many statements at once, and no % is a parameter."""
    op.get_bind().exec_driver_sql(sql, execution_options={"no_parameters": True})


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def upgrade() -> None:
    _run(_read("0011_verdicts.sql"))
    _run(_read("0001_reader.sql"))


def downgrade() -> None:
    """The two views as the migrations before this one made them; nothing is held that they do not show."""
    _run(f"DROP VIEW v1.judge_runs, v1.verdicts, {', '.join(_VIEWS)}")
    _run(views_before(revision, _VIEWS))
    _run(_read("0001_reader.sql"))
