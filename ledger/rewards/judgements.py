"""Which event already says what a post says. Equal posts wait for each other, so that one of them writes it (I5).

Invariant: of each place (what is judged, by which metric and source) the current event is the one with the highest id,
and a new one gets an id above it.
"""

from collections import ChainMap
from collections.abc import Hashable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from sqlalchemy import text

from ledger.direct import DirectConnection, Question, Rows
from ledger.errors import RewardConflictError
from ledger.tables import reward_events

Event: TypeAlias = dict[str, Any]
Place: TypeAlias = tuple[Hashable, ...]
_COLUMNS = tuple(column.name for column in reward_events.c if column.name != "created_at")
_SELECTED = ", ".join(f"e.{name}" for name in _COLUMNS)
_PLACE = (
    "project_id",
    "trajectory_id",
    "exchange_id",
    "metric",
    "source",
    "comparison_id",
    "target",
    "is_whole",
)
_ASKED = """
    FROM unnest(
        CAST(:project_id AS uuid[]), CAST(:trajectory_id AS uuid[]), CAST(:exchange_id AS uuid[]), CAST(:metric AS text[]),
        CAST(:source AS text[]), CAST(:comparison_id AS uuid[]), CAST(:target AS text[]), CAST(:is_whole AS boolean[])
    ) AS place (project_id, trajectory_id, exchange_id, metric, source, comparison_id, target, is_whole)
"""
_SAME_JUDGE = """
    e.project_id = place.project_id AND e.metric = place.metric AND e.source = place.source
    AND e.comparison_id IS NOT DISTINCT FROM place.comparison_id
"""
# Always in one order, so that two batches never wait for each other in a circle.
_LOCK = text("""
    SELECT pg_advisory_xact_lock(wanted.key) FROM (
        SELECT DISTINCT hashtextextended(name, 0) AS key FROM unnest(CAST(:names AS text[])) AS name ORDER BY key
    ) AS wanted
""")
_POSTS = text(f"""
    SELECT {_SELECTED}
    FROM unnest(CAST(:project_ids AS uuid[]), CAST(:ids AS text[])) AS post (project_id, id)
    CROSS JOIN LATERAL (
        SELECT * FROM reward_events AS e
        WHERE e.project_id = post.project_id AND e.idempotency_id = post.id ORDER BY e.id LIMIT 1
    ) AS e
""")  # noqa: S608 - our own columns
_CURRENT = text(f"""
    SELECT {_SELECTED} {_ASKED}
    CROSS JOIN LATERAL (
        SELECT * FROM reward_events AS e
        WHERE e.trajectory_id = place.trajectory_id AND e.exchange_id IS NOT DISTINCT FROM place.exchange_id
            AND {_SAME_JUDGE}
        ORDER BY e.id DESC LIMIT 1
    ) AS e
""")  # noqa: S608 - our own columns
_CURRENT_EARLY = text(f"""
    SELECT {_SELECTED} {_ASKED}
    CROSS JOIN LATERAL (
        SELECT * FROM reward_events AS e
        WHERE e.trajectory_id IS NULL AND e.target = place.target AND e.is_whole = place.is_whole AND {_SAME_JUDGE}
        ORDER BY e.id DESC LIMIT 1
    ) AS e
""")  # noqa: S608 - our own columns


def place_of(event: Mapping[str, Any]) -> Place:
    """While it is early, its target stands for what it judges."""
    early = (event["target"], event["is_whole"]) if event["trajectory_id"] is None else ()
    return (*(event[name] for name in _PLACE[:6]), *early)


class Standing:
    """What stands of the places and idempotency ids of a batch, and then what the batch itself adds."""

    def __init__(self, found: Iterable[Event] = ()) -> None:
        self._posts: MutableMapping[Place, Event] = {}
        self._current: MutableMapping[Place, Event] = {}
        self.add(found)

    def copy(self) -> "Standing":
        """What is added to it is not added here."""
        found = Standing()
        found._posts, found._current = ChainMap({}, self._posts), ChainMap({}, self._current)
        return found

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            place = place_of(event)
            current = self._current.get(place)
            if current is None or current["id"] < event["id"]:
                self._current[place] = event
            if event["idempotency_id"] is not None:
                self._posts.setdefault((event["project_id"], event["idempotency_id"]), event)

    def current(self, event: Event) -> Event | None:
        """What its judge said last of the same."""
        return self._current.get(place_of(event))

    def same(self, event: Event) -> Event | None:
        """The event that says the same already. If there is none, this one gets an id above the current one.

        Raises RewardConflictError if the idempotency id said something else.
        """
        if posted := self._posts.get((event["project_id"], event["idempotency_id"])):
            if not _is_same_post(posted, event):
                raise RewardConflictError
            return posted
        current = self.current(event)
        if current is None:
            return None
        if _is_same_content(current, event) and event["idempotency_id"] in (None, current["idempotency_id"]):
            return current
        event["id"] = max(event["id"], UUID(int=current["id"].int + 1))
        return None


def lock_and_read(asked: DirectConnection, first: Question, events: Sequence[Event]) -> tuple[Rows, Standing]:
    """Locks the places and idempotency ids of these events until the commit; asks `first` before, together with it."""
    places = {place_of(event): event for event in events}
    posts = {(event["project_id"], event["idempotency_id"]) for event in events if event["idempotency_id"]}
    names = [f"slipstream:judgement:{':'.join(map(str, place))}" for place in places]
    names += [f"slipstream:post:{project_id}:{id_}" for project_id, id_ in posts]
    early = [event for event in places.values() if event["trajectory_id"] is None]
    known = [event for event in places.values() if event["trajectory_id"] is not None]
    questions: list[Question] = [first, (_LOCK, {"names": names})]
    if posts:
        questions.append(
            (_POSTS, {"project_ids": [id_ for id_, _ in posts], "ids": [id_ for _, id_ in posts]})
        )
    questions += [(sql, _columns(some)) for sql, some in ((_CURRENT, known), (_CURRENT_EARLY, early)) if some]
    held, _, *answers = asked.ask(*questions)
    return held, Standing(row._asdict() for answer in answers for row in answer)


def _columns(events: Sequence[Event]) -> dict[str, list[Any]]:
    return {name: [event[name] for event in events] for name in _PLACE}


def _is_same_post(posted: Event, event: Event) -> bool:
    is_same = _is_same(posted, event, "metric", "source")
    return is_same and _is_same_content(posted, event) and _is_about(posted, event)


def _is_same(one: Event, event: Event, *names: str) -> bool:
    return all(one[name] == event[name] for name in names)


def _is_same_content(one: Event, event: Event) -> bool:
    return _is_same(one, event, "value", "content", "comment", "is_retraction", "is_final")


def _is_about(one: Event, event: Event) -> bool:
    is_resolved = one["trajectory_id"] is not None and _is_same(one, event, "trajectory_id", "exchange_id")
    return is_resolved or _is_same(one, event, "target", "is_whole")
