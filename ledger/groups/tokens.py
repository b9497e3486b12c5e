"""How much there is to learn from in groups: completion tokens, cheap to ask for and never exact.

Exact is what a step decides (`no_variance`, too stale, too long); this bounds what it looks at, and says whether it is worth it.
"""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

_TOKENS = text("""
    SELECT t.group_id, sum(x.num_tokens) AS num_tokens
    FROM trajectories AS t
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(e.num_completion_tokens), 0) AS num_tokens FROM exchanges AS e
        WHERE e.trajectory_id = t.id AND e.untrainable_reason IS NULL
    ) AS x
    WHERE t.group_id = ANY (CAST(:group_ids AS uuid[])) AND EXISTS (
        SELECT FROM public.judgements AS j
        WHERE j.trajectory_id = t.id AND NOT j.is_retraction AND j.value IS NOT NULL AND j.weight > 0
    )
    GROUP BY t.group_id
""")


def tokens_of(connection: Connection, group_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Of each group: completion tokens that can be trained, of its judged members."""
    rows = connection.execute(_TOKENS, {"group_ids": list(group_ids)})
    return {row.group_id: int(row.num_tokens) for row in rows}
