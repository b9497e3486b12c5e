"""Which judgements count and what they make together: views, and nothing else.

Safe on big tables: no row is read or written.

Revision ID: 0010
"""

from pathlib import Path

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_NEW = ("v1.sibling_runs", "v1.comparisons", "v1.metrics", "v1.exchange_rewards", "v1.trajectory_rewards")
# In the order in which they are made: the file that made each before, and every file that says something of one.
_BEFORE = {
    "v1.rewards": "0007_views.sql",
    "v1.trajectories": "0008_views.sql",
    "v1.groups": "0007_views.sql",
    "v1.lineage": "0007_views.sql",
}
_COMMENTS = (
    "0001_views.sql", "0001_views_learning.sql", "0003_traffic.sql", "0004_external.sql", "0007_views.sql",
    "0008_views.sql",
)  # fmt: skip


def _run(sql: str) -> None:
    """Many statements at once, and no % is a parameter."""
    op.get_bind().exec_driver_sql(sql, execution_options={"no_parameters": True})


def _statements(name: str) -> list[str]:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").split(";\n")


def upgrade() -> None:
    for name in ("0010_rewards.sql", "0010_comments.sql", "0010_views.sql", "0001_reader.sql"):
        _run(Path(__file__).with_name(name).read_text(encoding="utf-8"))


def downgrade() -> None:
    """The views as 0007 and 0008 made them, with every comment on them up to then."""
    views = [*_BEFORE, *_NEW]
    _run(f"DROP VIEW {', '.join(views)}, public.judgements")
    made = [
        part
        for view, name in _BEFORE.items()
        for part in _statements(name)
        if f"CREATE OR REPLACE VIEW {view} AS" in part
    ]
    said = [
        part
        for name in _COMMENTS
        for part in _statements(name)
        if part.lstrip().startswith("COMMENT ON ") and any(f" {view}" in part for view in _BEFORE)
    ]
    _run(";\n".join([*made, *said]))
    _run(Path(__file__).with_name("0001_reader.sql").read_text(encoding="utf-8"))
