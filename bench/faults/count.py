"""The independent count: what the clients saw against the rows of `exchanges`. It knows nothing of spools and numbers."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import psycopg

from bench.faults.fate import Fate, Sent, rows_due
from bench.faults.load import NUM_TOKENS

_ROWS = """
SELECT request_id, trajectory_id::text, status,
    coalesce(cardinality(completion_ids), 0) = %(num_tokens)s AND coalesce(cardinality(logprobs), 0) = %(num_tokens)s
    AND cardinality(prompt_ids) > 0
FROM exchanges WHERE request_id LIKE %(round)s ORDER BY id
"""


class Row(NamedTuple):
    request_id: str
    trajectory_id: str
    status: str
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Count:
    num_sent: int
    fates: dict[str, int]
    num_rows: int
    lost: list[str]  # request ids
    duplicated: list[str]
    unexpected: list[str]  # rows of calls that nobody sent
    broken: list[str]  # answered to the end, and the row says otherwise
    disordered: list[
        str
    ]  # trajectories whose rows are not in the order of their calls, or not one trajectory

    @property
    def is_right(self) -> bool:
        return not (self.lost or self.duplicated or self.unexpected or self.broken or self.disordered)


def rows_of(url: str, round_: str) -> list[Row]:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(_ROWS, {"round": f"{round_}.%", "num_tokens": NUM_TOKENS})
        return [Row(*row) for row in found.fetchall()]


def count(
    sent: Sequence[Sent],
    rows: Sequence[Row],
    killed: Iterable[int] = (),
    *,
    is_disk_full: bool = False,
    is_serving: bool = False,
) -> Count:
    """`is_serving`: with a full disk, a stream may have been answered whose end could not be written: `interrupted`."""
    num_rows = Counter(row.request_id for row in rows)
    due = {call.request_id: rows_due(call, frozenset(killed), is_disk_full=is_disk_full) for call in sent}
    whole = {row.request_id for row in rows if row.status == "completed" and row.is_whole}
    answered = {c.request_id for c in sent if c.fate is Fate.ANSWERED and c.is_captured}
    return Count(
        num_sent=len(sent),
        fates=dict(Counter(str(call.fate) for call in sent)),
        num_rows=len(rows),
        lost=[id_ for id_, bounds in due.items() if num_rows[id_] < bounds.fewest],
        duplicated=[id_ for id_, number in num_rows.items() if id_ in due and number > due[id_].most],
        unexpected=[id_ for id_ in num_rows if id_ not in due],
        broken=[] if is_serving else sorted(id_ for id_ in answered if num_rows[id_] and id_ not in whole),
        disordered=_disordered(rows),
    )


def _disordered(rows: Sequence[Row]) -> list[str]:
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    trajectories: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        worker, _, number = row.request_id.rpartition(".")
        numbers[worker].append(int(number))
        trajectories[worker].add(row.trajectory_id)
    return [w for w, found in numbers.items() if found != sorted(found) or len(trajectories[w]) > 1]
