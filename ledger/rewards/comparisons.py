"""Comparisons: which of two trajectories was better. Each is two judgements of metric `comparison`, 1 and 0.

A comparison is of a pair and a source: the same source comparing the same two again changes it, its events say how.
Both sides are written, or none. Two that are compared belong in one group (see ledger.rewards.pairs).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.direct import DirectConnection, direct
from ledger.errors import ComparisonRefusedError, LedgerError
from ledger.identifiers import MAX_CHOICES, new_id, parse_id
from ledger.recording_lock import lock_projects
from ledger.rewards.meanings import Meaning, Target, look_up
from ledger.rewards.pairs import pair_up
from ledger.rewards.posting import post_rewards
from ledger.rewards.posts import Posting, RewardPost, RewardResult
from ledger.rewards.targets import canonical
from ledger.text import to_name
from ledger.vocabulary import COMPARISON_METRIC

__all__ = ["Comparison", "ComparisonResult", "pair_up", "post_comparison", "retract_comparison"]

_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")
_PROJECT = text("SELECT id FROM projects WHERE name = :name")
_OF_SIDE = """
    SELECT e.comparison_id FROM reward_events AS e
    WHERE e.project_id = :project_id AND e.metric = 'comparison' AND e.source = :source AND (
        e.trajectory_id = CAST(:{side}_trajectory AS uuid)
            AND e.exchange_id IS NOT DISTINCT FROM CAST(:{side}_exchange AS uuid)
        OR CAST(:{side}_trajectory AS uuid) IS NULL AND e.trajectory_id IS NULL AND e.target = :{side}_target
            AND e.is_whole = CAST(:is_whole AS boolean)
    )
"""
_FIND = text(f"""
    SELECT c.id FROM comparisons AS c
    WHERE c.id IN ({_OF_SIDE.format(side="one")} INTERSECT {_OF_SIDE.format(side="two")})
    ORDER BY c.id DESC LIMIT 1
""")  # noqa: S608 - constants
# A post that is repeated after a newer one changes nothing: its events are the older ones.
_WRITE = text("""
    INSERT INTO comparisons AS c (id, project_id, preferred_event_id, other_event_id)
    VALUES (:id, :project_id, :preferred, :other)
    ON CONFLICT (id) DO UPDATE SET preferred_event_id = excluded.preferred_event_id, other_event_id = excluded.other_event_id
    WHERE greatest(excluded.preferred_event_id, excluded.other_event_id) > greatest(c.preferred_event_id, c.other_event_id)
""")
_READ = text("""
    SELECT c.id, c.project_id, e.target, e.trajectory_id, e.exchange_id, e.source, e.is_whole,
        e.id = c.preferred_event_id AS is_preferred
    FROM comparisons AS c JOIN reward_events AS e ON e.id IN (c.preferred_event_id, c.other_event_id)
    WHERE c.id = :id AND c.project_id = :project_id ORDER BY is_preferred DESC
""")
_GROUP = text("SELECT group_id FROM comparisons WHERE id = :id")


@dataclass(frozen=True, slots=True)
class Comparison:
    """As posted. Both posts name their side, and agree in everything else.

    Example: Comparison(RewardPost("run-7"), RewardPost("chatcmpl-0197…", choice=2)).
    """

    preferred: RewardPost
    other: RewardPost


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    comparison_id: UUID
    status: Literal["recorded", "unchanged", "early"]
    preferred: RewardResult
    other: RewardResult
    group_id: UUID | None


def post_comparison(connection: Connection, project: str, comparison: Comparison) -> ComparisonResult:
    """Raises RewardRefusedError, as for rewards; ComparisonRefusedError where both sides are the same."""
    asked = direct(connection)
    project_id = _project_id(asked, project)
    sides = (comparison.preferred, comparison.other)
    _lock(asked, project, project_id, sides)
    id_ = _standing(asked, project, project_id, sides) or new_id()
    results = _post(
        connection, project, [_half(one, id_, value) for one, value in zip(sides, (1.0, 0.0), strict=True)]
    )
    events = {"preferred": results[0].event_id, "other": results[1].event_id}
    asked.execute(_WRITE, {"id": id_, "project_id": project_id, **events})
    return _told(connection, id_, results)


def retract_comparison(
    connection: Connection, project: str, id_: UUID, key_id: UUID | None
) -> ComparisonResult | None:
    """Both halves are taken back. None where the project has no comparison of this id."""
    asked = direct(connection)
    project_id = _project_id(asked, project)
    halves = asked.execute(_READ, {"id": id_, "project_id": project_id}).all()
    if len(halves) != len(("preferred", "other")):
        return None
    posts = [replace(_named(half), comparison_id=id_, is_retraction=True, key_id=key_id) for half in halves]
    _lock(asked, project, project_id, posts)
    results = _post(connection, project, posts)
    if all(result.taken_back for result in results):
        events = {"preferred": results[0].event_id, "other": results[1].event_id}
        asked.execute(_WRITE, {"id": id_, "project_id": project_id, **events})
    return _told(connection, id_, results)


def _project_id(asked: DirectConnection, project: str) -> UUID:
    found: UUID | None = asked.execute(_PROJECT, {"name": project}).scalar()
    if found is None:
        raise LedgerError(f"there is no project {project!r}: `slipstream keys` lists them")
    return found


def _lock(asked: DirectConnection, project: str, project_id: UUID, sides: Sequence[RewardPost]) -> None:
    """The project's recorders first, as everybody does: what is known is not merged until the commit, what is unknown
    is not recorded. Then equal comparisons, either way round, wait for each other.
    """
    meanings = look_up(asked, _targets(project, sides))
    lock_projects(asked, {project_id: any(meaning.trajectory_id is None for meaning in meanings)})
    names = sorted(canonical(side.target, side.choice) for side in sides)
    whose = ["slipstream:comparison", str(project_id), to_name(sides[0].source)]
    asked.execute(_LOCK, {"name": ":".join([*whose, *names])})


def _targets(project: str, sides: Sequence[RewardPost]) -> list[Target]:
    return [Target(project, side.target, side.choice, side.is_whole) for side in sides]


def _standing(
    asked: DirectConnection, project: str, project_id: UUID, sides: Sequence[RewardPost]
) -> UUID | None:
    """The comparison of this pair by this source, if there is one. Raises ComparisonRefusedError."""
    meanings = look_up(asked, _targets(project, sides))
    targets = [canonical(side.target, side.choice) for side in sides]
    one, two = (_place(meaning, target) for meaning, target in zip(meanings, targets, strict=True))
    if one == two:
        raise ComparisonRefusedError
    values: dict[str, Any] = {
        "project_id": project_id, "source": to_name(sides[0].source), "is_whole": sides[0].is_whole,
    }  # fmt: skip
    for side, meaning, target in zip(("one", "two"), meanings, targets, strict=True):
        values |= {
            f"{side}_trajectory": meaning.trajectory_id,
            f"{side}_exchange": meaning.exchange_id,
            f"{side}_target": target,
        }
    found: UUID | None = asked.execute(_FIND, values).scalar()
    return found


def _place(meaning: Meaning, target: str) -> tuple[object, ...]:
    return (meaning.trajectory_id, meaning.exchange_id) if meaning.trajectory_id else (target,)


def _half(side: RewardPost, id_: UUID, value: float) -> RewardPost:
    """The two halves of a post have an id each."""
    of_half = f"{side.idempotency_id}:{'preferred' if value else 'other'}" if side.idempotency_id else None
    return replace(side, metric=COMPARISON_METRIC, value=value, comparison_id=id_, idempotency_id=of_half)


def _named(half: Any) -> RewardPost:
    """What its event judged, in a way that means just that: a call's id spans all its choices."""
    target, choice = half.target, None
    if half.exchange_id:
        choice = half.exchange_id.int % MAX_CHOICES
        target = str(UUID(int=half.exchange_id.int - choice))
    elif half.trajectory_id:
        target = str(half.trajectory_id)
    elif (parts := half.target.rpartition("#"))[2].isdecimal() and parse_id(parts[0]):
        target, choice = parts[0], int(parts[2])
    return RewardPost(target, COMPARISON_METRIC, choice=choice, source=half.source, is_whole=half.is_whole)


def _post(connection: Connection, project: str, posts: Sequence[RewardPost]) -> list[RewardResult]:
    [answer] = post_rewards(connection, [Posting(project, posts)])
    if isinstance(answer, LedgerError):
        raise answer
    return answer


def _told(connection: Connection, id_: UUID, results: Sequence[RewardResult]) -> ComparisonResult:
    statuses = {result.status for result in results}
    if statuses == {"recorded"}:
        pair_up(connection, [id_])
    group_id: UUID | None = direct(connection).execute(_GROUP, {"id": id_}).scalar()
    status = next((one for one in ("early", "recorded") if one in statuses), "unchanged")
    return ComparisonResult(id_, status, results[0], results[1], group_id)  # type: ignore[arg-type]
