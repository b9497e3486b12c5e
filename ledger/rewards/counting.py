"""Whether a judgement counts, said to whoever posts it.

v1.rewards says it of every event at any later time, and is right where the two differ: a judge's event may be outranked,
and one that is posted again may have been superseded, which only the view knows.
"""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.direct import DirectConnection
from ledger.rewards.ranges import Accepted
from ledger.vocabulary import COMMENT_METRIC, DEMONSTRATION_METRIC, NotCounted

WORDS_METRICS = (COMMENT_METRIC, DEMONSTRATION_METRIC)
"""They have words and no value: nothing of them can count."""

_REASONS = text("SELECT id, not_counted_reason FROM v1.rewards WHERE id = ANY (CAST(:ids AS uuid[]))")


def reasons_not_counted(
    connection: Connection | DirectConnection, event_ids: Sequence[UUID]
) -> dict[UUID, NotCounted | None]:
    """Why each of these events does not count, as it stands now; None: it does."""
    rows = connection.execute(_REASONS, {"ids": list(event_ids)})
    return {row.id: row.not_counted_reason and NotCounted(row.not_counted_reason) for row in rows}


def not_counted(value: float | None, of: Accepted, *, is_early: bool) -> NotCounted | None:
    """Why a judgement that just arrived does not count; None: it does, unless a judge's is outranked."""
    if is_early:
        return NotCounted.EARLY
    if value is None:
        return NotCounted.NO_VALUE
    return None if of.weight else NotCounted.OTHER_METRIC


def note(reason: NotCounted | None, metric: str) -> str | None:
    """The same for whoever posted it."""
    if reason is NotCounted.NO_VALUE and metric in WORDS_METRICS:
        return f"A {metric} is stored beside the reward; it has no value that could count."
    return None if reason is None else _NOTES[reason].format(metric=metric)


_NOTES = {
    NotCounted.EARLY: (
        "Nothing has this id yet: the reward waits, and counts as soon as its row is recorded. Is the id right, and was "
        'its call captured? If the call has several choices, add "choice": k.'
    ),
    NotCounted.OTHER_METRIC: (
        "Metric {metric!r} is stored and does not count: the policy does not declare it, or with weight 0. "
        "`slipstream metrics declare` makes it count, what was posted before included."
    ),
    NotCounted.SUPERSEDED: "The same source judged the same later: that judgement stands.",
    NotCounted.RETRACTION: "Of this source, nothing said of this very target counts for metric {metric!r} any more; the history is kept.",
    NotCounted.NO_VALUE: "It has no value.",
    NotCounted.OUT_OF_RANGE: "Its value is outside the range that the policy has declared for metric {metric!r}.",
    NotCounted.OUTRANKED: "A judge's scores count only where nobody else judged the trajectory.",
}
