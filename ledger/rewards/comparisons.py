"""Comparisons: which of two trajectories was better. Each is two judgements of metric `comparison`, 1 and 0.

A comparison is of a pair and a source: the same source comparing the same two again changes it, its events say how.
Both sides are written, or none. Two that are compared belong in one group (see ledger.rewards.pairs). Invariant: whoever
writes one is alone in its project, recorders included: names mean what they mean, and groups are taken in no circle.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.direct import DirectConnection, direct
from ledger.erasure.rewards import ERASED_SOURCE, names_nobody
from ledger.errors import ComparisonRefusedError, LedgerError
from ledger.identifiers import MAX_CHOICES, new_id, parse_id
from ledger.recording_lock import lock_projects
from ledger.rewards.meanings import Meaning, Target, look_up
from ledger.rewards.pairs import pair_up
from ledger.rewards.posting import post_rewards
from ledger.rewards.posts import Posting, RewardPost, RewardResult
from ledger.rewards.targets import canonical
from ledger.text import to_name
from ledger.vocabulary import COMPARISON_METRIC, NotCounted

_PROJECT = text("SELECT id FROM projects WHERE name = :name")
# Of a side that was erased the source may be a number: then the other side tells whose comparison it is.
_OF_SIDE = """
    SELECT e.comparison_id AS id, e.source FROM reward_events AS e
    WHERE e.project_id = :project_id AND e.metric = 'comparison'
        AND (e.source = :source OR CAST(:{side}_is_unnamed AS boolean) AND e.source ~ :unnamed)
        AND (
            e.trajectory_id = CAST(:{side}_trajectory AS uuid)
                AND e.exchange_id IS NOT DISTINCT FROM CAST(:{side}_exchange AS uuid)
            OR CAST(:{side}_trajectory AS uuid) IS NULL AND e.trajectory_id IS NULL AND e.target = :{side}_target
                AND e.is_whole = CAST(:is_whole AS boolean)
        )
"""
_FIND = text(f"""
    SELECT c.id, one.source AS one_source, two.source AS two_source FROM comparisons AS c
    JOIN ({_OF_SIDE.format(side="one")}) AS one ON one.id = c.id
    JOIN ({_OF_SIDE.format(side="two")}) AS two ON two.id = c.id
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
        CASE WHEN e.id = c.preferred_event_id THEN 'preferred' ELSE 'other' END AS name,
        c.preferred_event_id, c.other_event_id
    FROM comparisons AS c JOIN reward_events AS e ON e.id IN (c.preferred_event_id, c.other_event_id)
    WHERE c.id = :id AND c.project_id = :project_id
""")
_OTHER_SIDE = (
    "Nothing has the other side's id yet: both count as soon as its row is recorded. Is the id right?"
)
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
    """A side is None where retention removed it."""

    comparison_id: UUID
    status: Literal["recorded", "unchanged", "early"]
    preferred: RewardResult | None
    other: RewardResult | None
    group_id: UUID | None


def post_comparison(connection: Connection, project: str, comparison: Comparison) -> ComparisonResult:
    """Raises RewardRefusedError, as for rewards; ComparisonRefusedError where both sides are the same."""
    asked = direct(connection)
    project_id = _alone_in(asked, project)
    id_, sides = _standing(asked, project, project_id, (comparison.preferred, comparison.other))
    results = _post(
        connection, project, [_half(one, id_, value) for one, value in zip(sides, (1.0, 0.0), strict=True)]
    )
    events = {"preferred": results[0].event_id, "other": results[1].event_id}
    asked.execute(_WRITE, {"id": id_, "project_id": project_id, **events})
    return _told(connection, id_, *results)


def retract_comparison(
    connection: Connection, project: str, id_: UUID, key_id: UUID | None
) -> ComparisonResult | None:
    """Both halves are taken back, or the one that retention left. None where the project has no comparison of this id."""
    asked = direct(connection)
    project_id = _alone_in(asked, project)
    halves = asked.execute(_READ, {"id": id_, "project_id": project_id}).all()
    if not halves:
        return None
    posts = [replace(_named(half), comparison_id=id_, is_retraction=True, key_id=key_id) for half in halves]
    results = {half.name: one for half, one in zip(halves, _post(connection, project, posts), strict=True)}
    events = {half.name: results[half.name].event_id for half in halves if results[half.name].taken_back}
    if events:
        before = {"preferred": halves[0].preferred_event_id, "other": halves[0].other_event_id}
        asked.execute(_WRITE, {"id": id_, "project_id": project_id, **before, **events})
    return _told(connection, id_, results.get("preferred"), results.get("other"))


def _alone_in(asked: DirectConnection, project: str) -> UUID:
    """Until the commit nobody records, merges, erases, moves or compares in it. Its id."""
    found: UUID | None = asked.execute(_PROJECT, {"name": project}).scalar()
    if found is None:
        raise LedgerError(f"there is no project {project!r}: `slipstream keys` lists them")
    lock_projects(asked, {found: True})
    return found


def _standing(
    asked: DirectConnection, project: str, project_id: UUID, sides: tuple[RewardPost, RewardPost]
) -> tuple[UUID, tuple[RewardPost, RewardPost]]:
    """The comparison of this pair by this source, else a new one; an erased side is told by the source that its half
    has now. Raises ComparisonRefusedError.
    """
    meanings = look_up(asked, [Target(project, side.target, side.choice, side.is_whole) for side in sides])
    targets = [canonical(side.target, side.choice) for side in sides]
    one, two = (_place(meaning, target) for meaning, target in zip(meanings, targets, strict=True))
    if one == two:
        raise ComparisonRefusedError
    source = to_name(sides[0].source)
    values: dict[str, Any] = {
        "project_id": project_id, "source": source, "unnamed": ERASED_SOURCE, "is_whole": sides[0].is_whole,
    }  # fmt: skip
    unnamed = [meaning.is_erased and not names_nobody(source) for meaning in meanings]
    for number, side in enumerate(("one", "two")):
        values |= {
            f"{side}_trajectory": meanings[number].trajectory_id,
            f"{side}_exchange": meanings[number].exchange_id,
            f"{side}_target": targets[number],
            f"{side}_is_unnamed": unnamed[number],
        }
    found = asked.execute(_FIND, values).first()
    if found is None:
        return new_id(), sides
    told = [
        replace(side, source=its_source) if is_unnamed else side
        for side, its_source, is_unnamed in zip(
            sides, (found.one_source, found.two_source), unnamed, strict=True
        )
    ]
    return found.id, (told[0], told[1])


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


def _told(
    connection: Connection, id_: UUID, preferred: RewardResult | None, other: RewardResult | None
) -> ComparisonResult:
    statuses = {half.status for half in (preferred, other) if half}
    if statuses == {"recorded"}:
        pair_up(connection, [id_])
    if "early" in statuses:
        preferred, other = _waiting(preferred), _waiting(other)
    group_id: UUID | None = direct(connection).execute(_GROUP, {"id": id_}).scalar()
    status = next((one for one in ("early", "recorded") if one in statuses), "unchanged")
    return ComparisonResult(id_, status, preferred, other, group_id)  # type: ignore[arg-type]


def _waiting(half: RewardResult | None) -> RewardResult | None:
    """Half a comparison is better than nobody: it counts once the other side is known."""
    if half is None or half.not_counted_reason is not None:
        return half
    return replace(half, not_counted_reason=NotCounted.EARLY, note=_OTHER_SIDE)
