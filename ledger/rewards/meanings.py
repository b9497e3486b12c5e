"""What the targets of many posts mean, asked at once: the trajectory or exchange, its policy's range, its group.

Invariant: meanings that are held stay true until the commit. A trajectory that is judged does not become part of
another one meanwhile, and what is unknown is not being recorded (ledger.recording_lock).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.direct import DirectConnection, Question, Rows
from ledger.identifiers import MAX_CHOICES, parse_id
from ledger.recording_lock import lock_projects
from ledger.text import to_name
from ledger.vocabulary import GroupState

_BEGIN = text("SAVEPOINT judged")
_KEEP = text("RELEASE SAVEPOINT judged")
_BEGIN_AGAIN = text("ROLLBACK TO SAVEPOINT judged")
_HOLD = text("SELECT id FROM trajectories WHERE id = ANY (CAST(:ids AS uuid[])) ORDER BY id FOR KEY SHARE")
# An id of ours is a name, too, where its trajectory proved to be part of another. `lowest` and `highest` are those of all
# targets: so it is planned for the months that they are from, and no others.
_FIND = text("""
    SELECT project.id AS project_id, t.id AS trajectory_id, said.exchange_id,
        CASE WHEN said.num_meant <> 1 THEN said.choices END AS choices, t.policy_id,
        t.group_id, g.state AS group_state, t.erased_at IS NOT NULL AS is_erased, said.is_erased AS is_turn_erased
    FROM unnest(
        CAST(:projects AS text[]), CAST(:names AS text[]), CAST(:own_names AS text[]), CAST(:wanted AS uuid[]),
        CAST(:firsts AS uuid[]), CAST(:lasts AS uuid[]), CAST(:choices AS integer[])
    ) WITH ORDINALITY AS asked (project, name, own_name, wanted, first, last, choice, number)
    LEFT JOIN projects AS project ON project.name = asked.project
    LEFT JOIN LATERAL (
        SELECT n.trajectory_id FROM trajectory_names AS n
        WHERE n.project_id = project.id AND n.name = ANY (ARRAY[asked.name, asked.own_name])
        ORDER BY n.name <> asked.name LIMIT 1
    ) AS named ON true
    LEFT JOIN LATERAL (
        SELECT t.id FROM trajectories AS t
        WHERE named.trajectory_id IS NULL AND t.id = asked.wanted AND t.project_id = project.id
            AND t.id >= CAST(:lowest AS uuid) AND t.id <= CAST(:highest AS uuid)
        LIMIT 1
    ) AS own ON true
    LEFT JOIN LATERAL (
        SELECT array_agg(e.choice_index ORDER BY e.id) AS choices, count(*) FILTER (WHERE e.is_meant) AS num_meant,
            (array_agg(e.id) FILTER (WHERE e.is_meant))[1] AS exchange_id,
            (array_agg(e.trajectory_id) FILTER (WHERE e.is_meant))[1] AS trajectory_id,
            bool_or(e.is_meant AND e.erased_at IS NOT NULL) AS is_erased
        FROM (
            SELECT e.id, e.trajectory_id, e.choice_index, e.erased_at,
                asked.choice IS NULL OR e.choice_index = asked.choice AS is_meant
            FROM exchanges AS e
            WHERE named.trajectory_id IS NULL AND own.id IS NULL AND e.project_id = project.id
                AND e.id >= asked.first AND e.id <= asked.last
                AND e.id >= CAST(:lowest AS uuid) AND e.id <= CAST(:highest AS uuid)
        ) AS e
    ) AS said ON true
    LEFT JOIN LATERAL (
        SELECT t.id, t.policy_id, t.group_id, t.erased_at FROM trajectories AS t
        WHERE t.id = coalesce(named.trajectory_id, own.id, CASE WHEN said.num_meant = 1 THEN said.trajectory_id END)
        LIMIT 1
    ) AS t ON true
    LEFT JOIN groups AS g ON g.id = t.group_id
    ORDER BY asked.number
""")


class Target(NamedTuple):
    """What a post names."""

    project: str
    text: str
    choice: int | None
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a target means now. `choices`: those that the call has, where the target does not say which one.

    `project_id` is None where there is no such project.
    """

    project_id: UUID | None
    trajectory_id: UUID | None = None
    exchange_id: UUID | None = None
    choices: tuple[int, ...] = ()
    policy_id: UUID | None = None
    group_id: UUID | None = None
    group_state: GroupState | None = None
    is_erased: bool = False

    @property
    def is_unknown(self) -> bool:
        return self.project_id is not None and self.trajectory_id is None and not self.choices

    @property
    def is_late(self) -> bool:
        """Its group was trained, or was left out."""
        return self.group_state in {GroupState.TRAINED, GroupState.SKIPPED}


class Held:
    """Meanings that are locked until the commit, once `is_true` says that they still are what they were.

    Locks, in this order: projects by id, alone where a target is unknown, shared where a group is closed;
    trajectories by id.
    """

    def __init__(self, asked: DirectConnection, targets: Sequence[Target]) -> None:
        self._asked = asked
        self._targets = targets
        self._alone: set[UUID] = set()
        self.meanings: list[Meaning] = []

    def look(self, *also: Question) -> list[Rows]:
        """What `also` answers, which is asked together with it."""
        self._asked.later(_BEGIN)
        rows, *others = self._asked.ask((_FIND, _columns(self._targets)), *also)
        found = _meanings(rows, self._targets)
        alone = self._alone | {one.project_id for one in found if one.is_unknown and one.project_id}
        late = {one.project_id for one in found if one.is_late and one.project_id}
        if alone | late:
            lock_projects(self._asked, {id_: id_ in alone for id_ in alone | late})
            found = look_up(self._asked, self._targets)
        self._alone, self.meanings = alone, found
        return others

    @property
    def question(self) -> Question:
        """To be asked before anything that relies on the meanings."""
        return _HOLD, {"ids": sorted({one.trajectory_id for one in self.meanings if one.trajectory_id})}

    def is_true(self, answer: Rows) -> bool:
        """Whether nothing went or became part of another just now. If so the locks are kept, else given back."""
        ids = {one.trajectory_id for one in self.meanings if one.trajectory_id}
        unknown = {one.project_id for one in self.meanings if one.is_unknown}
        if len(answer) == len(ids) and unknown <= self._alone:
            self._asked.later(_KEEP)
            return True
        self._asked.later(_BEGIN_AGAIN)
        self._asked.later(_KEEP)
        self._alone = {one.project_id for one in self.meanings if one.project_id}
        return False


def look_up(connection: Connection | DirectConnection, targets: Sequence[Target]) -> list[Meaning]:
    """What they mean at this moment."""
    return _meanings(connection.execute(_FIND, _columns(targets)).all(), targets)


def _meanings(rows: Sequence[Any], targets: Sequence[Target]) -> list[Meaning]:
    return [_meaning(row, target) for row, target in zip(rows, targets, strict=True)]


def _columns(targets: Sequence[Target]) -> dict[str, Any]:
    wanted = [_Wanted.of(target) for target in targets]
    columns = zip(*wanted, strict=True)
    names = ("names", "own_names", "wanted", "firsts", "lasts")
    values: dict[str, Any] = {name: list(column) for name, column in zip(names, columns, strict=True)}
    values["projects"] = [target.project for target in targets]
    values["choices"] = [target.choice for target in targets]
    ids = [id_ for one in wanted for id_ in (one.first, one.trajectory_id, one.last) if id_] or [UUID(int=0)]
    values |= {"lowest": min(ids), "highest": max(ids)}
    return values


class _Wanted(NamedTuple):
    name: str
    own_name: str | None
    trajectory_id: UUID | None
    first: UUID | None
    last: UUID | None

    @classmethod
    def of(cls, target: Target) -> "_Wanted":
        """A call's id spans all its choices; the id of a later choice is exact."""
        name = to_name(f"{target.text}#{target.choice}" if target.choice else target.text)
        parsed = parse_id(target.text)
        if parsed is None:
            return cls(name, None, None, None, None)
        own = UUID(int=parsed.int + (target.choice or 0))
        is_call = parsed.int % MAX_CHOICES == 0
        last = UUID(int=parsed.int + MAX_CHOICES - 1) if is_call else parsed
        return cls(name, str(own), own, parsed, last)


def _meaning(row: Any, target: Target) -> Meaning:
    if row.trajectory_id is None:
        choices = tuple(row.choices or ())
        return Meaning(row.project_id, choices=choices)
    is_turn = row.exchange_id is not None and not target.is_whole
    return Meaning(
        row.project_id,
        trajectory_id=row.trajectory_id,
        exchange_id=row.exchange_id if is_turn else None,
        policy_id=row.policy_id,
        group_id=row.group_id,
        group_state=row.group_state and GroupState(row.group_state),
        is_erased=row.is_erased or bool(is_turn and row.is_turn_erased),
    )
