"""What became of each row, as columns of the views that show it; what judges did, as a view.

Safe on big tables: views only; no row is read or rewritten.

Revision ID: 0011
"""

from pathlib import Path

from alembic import op

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
    files = sorted(path for path in Path(__file__).parent.glob("*.sql") if path.name < "0011")
    parts = [part for file in files for part in file.read_text(encoding="utf-8").split(";\n")]
    comments = [part for part in parts if _is_comment(part)]
    views = [_newest(parts, view) for view in _VIEWS]
    _run(f"DROP VIEW v1.judge_runs, v1.verdicts, {', '.join(_VIEWS)}")
    _run(";\n".join([*views, *comments]))
    _run(_read("0001_reader.sql"))


def _is_comment(part: str) -> bool:
    """On one of the views, or on a column of it."""
    words = part.split(None, 4)
    return words[:2] == ["COMMENT", "ON"] and any(f"{words[3]}.".startswith(f"{view}.") for view in _VIEWS)


def _newest(parts: list[str], view: str) -> str:
    return [part for part in parts if f"VIEW {view} AS" in part][-1]
