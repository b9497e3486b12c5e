"""Rows without their payload. What the mathematics need stays: ids, versions, counts, times, values, samples.

Invariant: a row is emptied once, together with the trajectory, the names, the group's key and the judgements that
speak of it, in one transaction. Another user's turns stay readable (ledger.erasure.shared).
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.erasure.subject import Subject
from ledger.imports.identity import CLIENT
from ledger.tables.exchanges import USERS
from ledger.vocabulary import ErasureSubject

_HOLD = text("""
    SELECT id, end_user, external_id FROM trajectories WHERE id = ANY (:ids) ORDER BY id FOR UPDATE
""")
_USERS = ", ".join(f"{value}" for value in USERS.values())
_TURNS = text(f"""
    SELECT id, trajectory_id, parent_exchange_id, array_remove(ARRAY[{_USERS}], NULL) AS users,
        CASE WHEN client_name = '{CLIENT}' THEN encode(request_sha256, 'hex') END AS line_sha256
    FROM exchanges WHERE trajectory_id = ANY (:ids) AND erased_at IS NULL ORDER BY id
""")  # noqa: S608 - constants
_EMPTY = text("""
    UPDATE exchanges SET erased_at = now(), messages = NULL, request = '{}', response = NULL, completion_text = NULL,
        prompt_ids = NULL, completion_ids = NULL, logprobs = NULL, stop_reason = NULL, error = NULL,
        client_name = NULL, request_sha256 = NULL, conversation_sha256 = NULL, continues_sha256 = NULL,
        messages_sha256 = NULL, transcript_sha256 = NULL, request_id = replace(CAST(id AS text), '-', ''),
        requested_model = coalesce(answered_model, ''), is_trainable = false,
        untrainable_reason = CASE WHEN is_trainable THEN 'erased' ELSE untrainable_reason END
    WHERE id = ANY (:ids) AND erased_at IS NULL
""")
_CLOSE = text("""
    UPDATE trajectories AS t SET erased_at = now(), metadata = NULL, end_user = NULL, external_id = NULL,
        route = NULL
    WHERE id = ANY (:ids) AND NOT EXISTS (SELECT FROM exchanges AS e WHERE e.trajectory_id = t.id AND e.erased_at IS NULL)
    RETURNING id
""")
# What others share keeps its name, unless that holds the user's; a name of three letters stands in anything.
_LEAVE = text("""
    UPDATE trajectories SET end_user = NULL, metadata = NULL,
        external_id = CASE WHEN NOT (char_length(:name) >= 4 AND strpos(external_id, :name) > 0) THEN external_id END
    WHERE id = ANY (:ids) AND erased_at IS NULL AND end_user = :name
""")
# Ids that we gave out stay: a later turn is still told to belong here.
_FORGET = text("""
    DELETE FROM trajectory_names AS n USING trajectories AS t
    WHERE t.id = ANY (:ids) AND n.trajectory_id = t.id AND (t.erased_at IS NOT NULL OR char_length(:name) >= 4 AND strpos(n.name, :name) > 0)
        AND n.name !~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'
    RETURNING n.name
""")
_UNNAME_GROUPS = text("""
    UPDATE groups AS g SET key = 'erased:' || g.id, route = NULL
    WHERE g.id IN (SELECT t.group_id FROM trajectories AS t WHERE t.id = ANY (:ids) AND t.erased_at IS NOT NULL)
        AND (NOT EXISTS (SELECT FROM trajectories AS t WHERE t.group_id = g.id AND t.erased_at IS NULL)
            OR g.kind = 'explicit' AND char_length(:name) >= 4 AND strpos(g.key, :name) > 0)
""")


class Held:
    """Some trajectories, held: whose turn each unerased exchange is."""

    def __init__(self, connection: Connection, subject: Subject, trajectory_ids: Sequence[UUID]) -> None:
        held = connection.execute(_HOLD, {"ids": list(trajectory_ids)}).all()
        self.trajectory_ids = sorted({*trajectory_ids})
        self._subject = subject
        self._owners = {row.id: row.end_user for row in held}
        turns = connection.execute(_TURNS, {"ids": self.trajectory_ids}).all()
        self.own = [turn for turn in turns if self._is_own(turn)]
        self.others = [turn for turn in turns if not self._is_own(turn)]

    def _is_own(self, turn: Any) -> bool:
        """A turn that names nobody belongs to whom its trajectory began with."""
        if self._subject.kind is ErasureSubject.TRAJECTORY or self._subject.storable in turn.users:
            return True
        return not turn.users and self._owners.get(turn.trajectory_id) in (None, self._subject.storable)


def empty(connection: Connection, exchange_ids: Sequence[UUID]) -> int:
    return connection.execute(_EMPTY, {"ids": list(exchange_ids)}).rowcount


def close(
    connection: Connection, subject: Subject, ids: Sequence[UUID], *, is_all: bool
) -> tuple[int, list[str]]:
    """Trajectories of which nothing is left are erased themselves; how many, and the names that are forgotten.

    `is_all`: every own turn of theirs is empty now, so that they need not be found again.
    """
    name = subject.storable
    closed = connection.scalars(_CLOSE, {"ids": list(ids)}).all()
    if is_all and subject.kind is ErasureSubject.USER:
        connection.execute(_LEAVE, {"ids": list(ids), "name": name})
    names = connection.scalars(_FORGET, {"ids": list(ids), "name": name}).all()
    connection.execute(_UNNAME_GROUPS, {"ids": list(ids), "name": name})
    return len(closed), list(names)
