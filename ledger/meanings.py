"""What the targets of many posts mean, asked at once: the trajectory or exchange, its policy's range, its group.

Invariant: `held` gives meanings that stay true until the commit. A trajectory that is judged does not become part of
another one meanwhile, and what is unknown is not being recorded (ledger.recording_lock).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.direct import DirectConnection
from ledger.identifiers import MAX_CHOICES, parse_id
from ledger.recording_lock import lock_projects
from ledger.text import to_name
from ledger.vocabulary import GroupState

_MOST_LOOKS = 20
_BEGIN = text("SAVEPOINT judged")
_KEEP = text("RELEASE SAVEPOINT judged")
_BEGIN_AGAIN = text("ROLLBACK TO SAVEPOINT judged")
_HOLD = text("SELECT id FROM trajectories WHERE id = ANY (CAST(:ids AS uuid[])) ORDER BY id FOR KEY SHARE")
# An id of ours is a name, too, where its trajectory proved to be part of another.
_FIND = text("""
    SELECT asked.number, t.id AS trajectory_id, said.exchange_id,
        CASE WHEN said.num_meant <> 1 THEN said.choices END AS choices, t.policy_id, p.reward_min, p.reward_max,
        t.group_id, g.state AS group_state, t.erased_at IS NOT NULL AS is_erased, said.is_erased AS is_turn_erased
    FROM unnest(
        CAST(:project_ids AS uuid[]), CAST(:names AS text[]), CAST(:own_names AS text[]), CAST(:wanted AS uuid[]),
        CAST(:firsts AS uuid[]), CAST(:lasts AS uuid[]), CAST(:choices AS integer[])
    ) WITH ORDINALITY AS asked (project_id, name, own_name, wanted, first, last, choice, number)
    LEFT JOIN LATERAL (
        SELECT n.trajectory_id FROM trajectory_names AS n
        WHERE n.project_id = asked.project_id AND n.name = ANY (ARRAY[asked.name, asked.own_name])
        ORDER BY n.name <> asked.name LIMIT 1
    ) AS named ON true
    LEFT JOIN LATERAL (
        SELECT t.id FROM trajectories AS t
        WHERE named.trajectory_id IS NULL AND t.id = asked.wanted AND t.project_id = asked.project_id LIMIT 1
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
            WHERE named.trajectory_id IS NULL AND own.id IS NULL AND e.project_id = asked.project_id
                AND e.id >= asked.first AND e.id <= asked.last
        ) AS e
    ) AS said ON true
    LEFT JOIN LATERAL (
        SELECT t.id, t.policy_id, t.group_id, t.erased_at FROM trajectories AS t
        WHERE t.id = coalesce(named.trajectory_id, own.id, CASE WHEN said.num_meant = 1 THEN said.trajectory_id END)
        LIMIT 1
    ) AS t ON true
    LEFT JOIN policies AS p ON p.id = t.policy_id
    LEFT JOIN groups AS g ON g.id = t.group_id
    ORDER BY asked.number
""")


class Target(NamedTuple):
    """What a post names."""

    project_id: UUID
    text: str
    choice: int | None
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a target means now. `choices`: those that the call has, where the target does not say which one."""

    trajectory_id: UUID | None = None
    exchange_id: UUID | None = None
    choices: tuple[int, ...] = ()
    policy_id: UUID | None = None
    reward_min: float | None = None
    reward_max: float | None = None
    group_id: UUID | None = None
    group_state: GroupState | None = None
    is_erased: bool = False

    @property
    def is_unknown(self) -> bool:
        return self.trajectory_id is None and not self.choices

    @property
    def is_late(self) -> bool:
        """Its group was trained, or was left out."""
        return self.group_state in {GroupState.TRAINED, GroupState.SKIPPED}


def held(asked: DirectConnection, targets: Sequence[Target]) -> list[Meaning]:
    """Locks, in this order: projects by id, alone where a target is unknown, shared where a group is closed;
    trajectories by id.
    """
    projects, must_be_alone = {target.project_id for target in targets}, set[UUID]()
    for _ in range(_MOST_LOOKS):
        asked.later(_BEGIN)
        found = _locked(asked, targets, must_be_alone)
        if found is not None:
            asked.later(_KEEP)
            return found
        asked.later(_BEGIN_AGAIN)  # it just became part of another one, or went: locks are given back
        asked.later(_KEEP)
        must_be_alone = projects
    raise AssertionError("trajectories went away again and again")


def _locked(asked: DirectConnection, targets: Sequence[Target], alone: set[UUID]) -> list[Meaning] | None:
    found = look_up(asked, targets)
    alone = alone | _projects(targets, found, "is_unknown")
    late = _projects(targets, found, "is_late")
    if alone | late:
        lock_projects(asked, {project_id: project_id in alone for project_id in alone | late})
        found = look_up(asked, targets)
    if not _projects(targets, found, "is_unknown") <= alone:
        return None
    ids = {meaning.trajectory_id for meaning in found if meaning.trajectory_id}
    if not ids:
        return found
    kept = asked.execute(_HOLD, {"ids": list(ids)}).scalars()
    return found if len(kept) == len(ids) else None


def _projects(targets: Sequence[Target], found: Sequence[Meaning], which: str) -> set[UUID]:
    pairs = zip(targets, found, strict=True)
    return {target.project_id for target, meaning in pairs if getattr(meaning, which)}


def look_up(connection: Connection | DirectConnection, targets: Sequence[Target]) -> list[Meaning]:
    """What they mean at this moment."""
    rows = connection.execute(_FIND, _columns(targets)).all()
    return [_meaning(row, target) for row, target in zip(rows, targets, strict=True)]


def _columns(targets: Sequence[Target]) -> dict[str, list[Any]]:
    wanted = [_Wanted.of(target) for target in targets]
    columns = zip(*wanted, strict=True)
    names = ("names", "own_names", "wanted", "firsts", "lasts")
    values: dict[str, list[Any]] = {name: list(column) for name, column in zip(names, columns, strict=True)}
    values["project_ids"] = [target.project_id for target in targets]
    values["choices"] = [target.choice for target in targets]
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
        return Meaning(choices=tuple(row.choices or ()))
    is_turn = row.exchange_id is not None and not target.is_whole
    return Meaning(
        trajectory_id=row.trajectory_id,
        exchange_id=row.exchange_id if is_turn else None,
        policy_id=row.policy_id,
        reward_min=row.reward_min,
        reward_max=row.reward_max,
        group_id=row.group_id,
        group_state=row.group_state and GroupState(row.group_state),
        is_erased=row.is_erased or bool(is_turn and row.is_turn_erased),
    )
