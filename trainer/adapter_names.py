"""The names of adapters on disk, NAME@number: a number that ever got one is taken (I7). No tensor is read for that."""

from glob import escape
from pathlib import Path


def highest_version_on_disk(root: Path, line: str) -> int:
    """The largest n for which NAME@n has a directory: such a number is taken, whatever Postgres says."""
    place = root / line
    names = (path.name for path in place.parent.glob(f"{escape(place.name)}@*"))
    return max((int(n) for name in names if (n := name.rpartition("@")[2]).isdecimal()), default=0)
