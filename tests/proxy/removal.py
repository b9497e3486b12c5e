"""Members removed from a whole document by paths: the scanner's and the cutter's work, put together for their laws."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from proxy.splice import Edit, Member, cuts, decoded, document, edited, elements, encoded, members

Path: TypeAlias = tuple[str, ...]
EACH = "*"  # in a path: each element of an array


def without_members(raw: bytes, paths: Sequence[Path]) -> bytes:
    """The object without the members at these paths, e.g. `("choices", "*", "token_ids")`.

    Raises ValueError if `raw` is not one JSON object. A path that leads nowhere changes nothing.
    """
    text = decoded(raw)
    return encoded(edited(text, _removals(text, document(text), paths)))


def _removals(text: str, found: Sequence[Member], paths: Sequence[Path]) -> Iterator[Edit]:
    doomed = {path[0] for path in paths if len(path) == 1}
    yield from cuts(found, doomed)
    for member in found:
        deeper = [path[1:] for path in paths if len(path) > 1 and path[0] == member.key]
        if deeper and member.key not in doomed:
            yield from _inner_removals(text, member.value_start, member.value, deeper)


def _inner_removals(text: str, at: int, value: Any, paths: Sequence[Path]) -> Iterator[Edit]:
    if isinstance(value, dict):
        yield from _removals(text, members(text, at), paths)
    elif isinstance(value, list):
        deeper = [path[1:] for path in paths if path[0] == EACH and len(path) > 1]
        for (start, _), item in zip(elements(text, at), value, strict=True):
            if deeper:
                yield from _inner_removals(text, start, item, deeper)
