"""Views as the migrations before another one made them: what its downgrade puts back."""

from pathlib import Path

_FOLDER = Path(__file__).parent / "versions"


def views_before(revision: str, views: tuple[str, ...]) -> str:
    """SQL that makes these views, which must not exist, as they were before `revision`, with their comments."""
    files = sorted(path for path in _FOLDER.glob("*.sql") if path.name < revision)
    parts = [part for file in files for part in file.read_text(encoding="utf-8").split(";\n")]
    newest = [[part for part in parts if f"VIEW {view} AS" in part][-1] for view in views]
    return ";\n".join([*newest, *(part for part in parts if _is_comment(part, views))])


def _is_comment(part: str, views: tuple[str, ...]) -> bool:
    """On one of the views, or on a column of it."""
    words = part.split(None, 4)
    return words[:2] == ["COMMENT", "ON"] and any(f"{words[3]}.".startswith(f"{view}.") for view in views)
