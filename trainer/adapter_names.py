"""The names of adapters on disk, NAME@number: a number that ever got one is taken (I7). No tensor is read for that."""

from collections.abc import Iterable, Iterator
from glob import escape
from pathlib import Path


def highest_version_on_disk(root: Path, line: str) -> int:
    """The largest n for which NAME@n has a directory: such a number is taken, whatever Postgres says."""
    place = root / line
    names = (path.name for path in place.parent.glob(f"{escape(place.name)}@*"))
    return max(versions_of(place.name, names), default=0)


def versions_of(line: str, names: Iterable[str]) -> Iterator[int]:
    """Example: of the line `acme`, from `acme@3` and `acme@x@7`: 3. The other one is policy x of a project named acme."""
    for name in names:
        number = name.removeprefix(f"{line}@")
        if number != name and number.isdecimal():
            yield int(number)
