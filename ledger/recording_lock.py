"""Who records beside whom. Recorders of a project share a lock until they commit; three need it alone.

A reward for an unknown target, so that unknown means not recorded (I5); a batch with a retry, or with a turn of a
conversation that the proxy could not place, because what it repeats or goes on with may be on its way; and a batch
with a call that such a one waits for. A conversation that others wait for in vain is nobody's answer (the examples of
a few-shot prompt): those calls share the lock.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, TextClause, text

from ledger.direct import DirectConnection, Question, Rows, direct
from ledger.drafts import Draft
from ledger.identifiers import first_id_at, time_of
from ledger.retries import WINDOW_SECONDS
from ledger.vocabulary import IdentifiedBy

_TRY = text("SAVEPOINT shared_lock")
_KEEP = text("RELEASE SAVEPOINT shared_lock")
_GIVE_BACK = text("ROLLBACK TO SAVEPOINT shared_lock")
_SHARED = text("SELECT pg_advisory_xact_lock_shared(hashtextextended(:name, 0))")
_ALONE = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")
IS_AWAITED = text("""
    SELECT EXISTS (
        SELECT FROM unnest(CAST(:bodies AS bytea[])) AS sent (body)
        CROSS JOIN LATERAL (
            SELECT 1 FROM exchanges AS e
            WHERE e.request_sha256 = sent.body AND e.num_retries > 0 AND e.id >= :first_id AND e.id <= :last_id
            LIMIT 1
        ) AS retry
    ) OR EXISTS (
        SELECT FROM unnest(CAST(:answered AS bytea[])) AS answered (conversation)
        CROSS JOIN LATERAL (
            SELECT 1 FROM exchanges AS e
            WHERE e.continues_sha256 = answered.conversation AND e.identified_by = 'new' LIMIT 1
        ) AS turn
    ) OR EXISTS (
        SELECT FROM unnest(CAST(:looked_for AS bytea[])) AS looked_for (conversation)
        WHERE EXISTS (SELECT FROM exchanges AS e WHERE e.conversation_sha256 = looked_for.conversation)
            OR NOT EXISTS (
                SELECT FROM exchanges AS e
                WHERE e.continues_sha256 = looked_for.conversation AND e.identified_by = 'new'
                    AND e.created_at < now() - interval '1 minute'
            )
    ) OR EXISTS (
        SELECT FROM trajectories WHERE id = ANY (CAST(:begun AS uuid[])) AND identified_by = 'conversation'
    ) OR EXISTS (
        SELECT FROM unnest(CAST(:projects AS uuid[]), CAST(:gone_on_with AS uuid[])) AS trajectory (project_id, id)
        WHERE NOT EXISTS (SELECT FROM trajectories AS t WHERE t.id = trajectory.id)
            AND NOT EXISTS (
                SELECT FROM trajectory_names AS n
                WHERE n.project_id = trajectory.project_id AND n.name = CAST(trajectory.id AS text)
            )
    )
""")


def lock_recording(
    connection: Connection, drafts: Sequence[Draft], *questions: Question
) -> tuple[bool, list[Rows]]:
    """Taken by a recorder before it writes anything. True: it is alone in the projects of these drafts.

    The questions are asked under the lock, together with it.
    """
    asked = direct(connection)
    projects = {draft.policy.project_id for draft in drafts}
    if not any(draft.num_retries for draft in drafts) and not _looked_for(drafts) & _answered(drafts):
        shared = [_lock(_SHARED, id_) for id_ in sorted(projects)]
        asked.later(_TRY)
        answers = asked.ask(*shared, (IS_AWAITED, _waited_for(drafts)), *questions)
        answers = answers[len(shared) :]
        if not answers[0].scalar():
            asked.later(_KEEP)
            return False, answers[1:]
        asked.later(_GIVE_BACK)  # two recorders that keep theirs would wait for each other
        asked.later(_KEEP)
    alone = [_lock(_ALONE, id_) for id_ in sorted(projects)]
    return True, asked.ask(*alone, *questions)[len(alone) :]


def lock_projects(connection: DirectConnection, projects: Mapping[UUID, bool]) -> None:
    """By id, as recorders take them. True: alone, so that unknown means not recorded. False: shared, which holds
    back whoever is alone: trajectories are not merged, erased or removed meanwhile.
    """
    connection.ask(*(_lock(_ALONE if projects[id_] else _SHARED, id_) for id_ in sorted(projects)))


def lock_early(connection: Connection, project_id: UUID) -> None:
    """Waits for the recorders of a project, and holds back the next ones: after it, unknown means not recorded."""
    connection.execute(*_lock(_ALONE, project_id))


def _lock(statement: TextClause, project_id: UUID) -> Question:
    return statement, {"name": f"slipstream:recording:{project_id}"}


def _waited_for(drafts: Sequence[Draft]) -> dict[str, Any]:
    """Whether something recorded waits for one of these, or one of these begins a trajectory out of its order."""
    begun = {draft.wanted_trajectory_id for draft in drafts if not _goes_on(draft)}
    gone_on_with = {draft.wanted_trajectory_id: draft.project_id for draft in drafts if _goes_on(draft)}
    missing = sorted(gone_on_with.keys() - begun)
    first, last = time_of(drafts[0].id), time_of(drafts[-1].id)
    return {
        "bodies": list({draft.request_sha256 for draft in drafts if draft.request_sha256}),
        "first_id": first_id_at(first),
        "last_id": UUID(int=first_id_at(last).int + (WINDOW_SECONDS * 1000 + 1 << 80)),
        "answered": list(_answered(drafts)),
        "looked_for": list(_looked_for(drafts)),
        "begun": list(begun),
        "projects": [gone_on_with[id_] for id_ in missing],
        "gone_on_with": missing,
    }


def _goes_on(draft: Draft) -> bool:
    return draft.identified_by is IdentifiedBy.CONVERSATION and not draft.choice.index


def _answered(drafts: Sequence[Draft]) -> set[str]:
    return {draft.conversation_sha256 for draft in drafts if draft.conversation_sha256}


def _looked_for(drafts: Sequence[Draft]) -> set[str]:
    return {digest for draft in drafts if draft.is_looking and (digest := draft.continues_sha256)}
