"""Which group a trajectory joins. Members are added under a lock that a claim of the group waits for (I6).

A trajectory gets its group from its first trainable exchange and keeps it. A group that is no longer open is
continued by the next in sequence, so a late trajectory never joins a group that was already trained.
"""

import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.direct import direct
from ledger.drafts import Draft
from ledger.frozen import dataclass
from ledger.identifiers import new_id
from ledger.text import to_name
from ledger.token_ids import TokenIds
from ledger.vocabulary import GroupKind

GroupKey = tuple[
    int, int, str, str
]  # project, policy (as integers, which are compared in no time), kind, key
_uuid = lru_cache(maxsize=1000)(lambda value: UUID(int=value))
_KEYS = """unnest(CAST(:project_ids AS uuid[]), CAST(:policy_ids AS uuid[]), CAST(:kinds AS text[]),
    CAST(:keys AS text[]), CAST(:sizes AS integer[]), CAST(:ids AS uuid[]), CAST(:routes AS text[]))
    WITH ORDINALITY AS wanted (project_id, policy_id, kind, key, size, id, route, number)"""
_LOCK_OPEN = text(f"""
    SELECT wanted.number, g.id
    FROM groups AS g
    JOIN {_KEYS} USING (project_id, policy_id, kind, key)
    WHERE g.state = 'open'
    ORDER BY g.id
    FOR NO KEY UPDATE OF g
""")  # noqa: S608 - a constant
_CONTINUE = text(f"""
    INSERT INTO groups (id, project_id, policy_id, kind, key, size, sequence, last_member_at, route)
    SELECT wanted.id, project_id, policy_id, kind, key, wanted.size, coalesce(max(g.sequence) + 1, 0), now(),
        wanted.route
    FROM {_KEYS}
    LEFT JOIN groups AS g USING (project_id, policy_id, kind, key)
    GROUP BY wanted.id, project_id, policy_id, kind, key, wanted.size, wanted.route
    HAVING NOT coalesce(bool_or(g.state = 'open'), false)
    ORDER BY project_id, policy_id, kind, key
    ON CONFLICT DO NOTHING
""")  # noqa: S608 - a constant
# What was made just now is younger than nothing: it has its size and its time.
_TOUCH = text(f"""
    UPDATE groups AS g SET last_member_at = now(), size = coalesce(g.size, wanted.size)
    FROM {_KEYS}
    WHERE g.project_id = wanted.project_id AND g.policy_id = wanted.policy_id AND g.kind = wanted.kind
        AND g.key = wanted.key AND g.state = 'open' AND g.id <> wanted.id
""")  # noqa: S608 - a constant
_LOCK_KNOWN = text("""
    UPDATE groups SET last_member_at = now() WHERE id = ANY (CAST(:ids AS uuid[])) AND state = 'open' RETURNING id
""")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a group that does not exist yet will have: its declared size, its first member's route."""

    size: int | None = None
    route: str | None = None


def group_key(draft: Draft, window_seconds: int) -> GroupKey:
    """The group that a trajectory with this first trainable exchange belongs to."""
    call, policy = draft.call, draft.policy
    if call.attribution.group_key:
        kind, key = GroupKind.EXPLICIT, to_name(call.attribution.group_key)
    elif draft.num_samples > 1:
        prompt = f":{draft.prompt_index}" if call.num_prompts > 1 else ""
        kind, key = GroupKind.CHOICES, call.call_id.hex + prompt
    else:
        kind, key = GroupKind.PROMPT, _prompt_key(draft, window_seconds)
    return policy.project_id.int, policy.id.int, kind.value, key


def group_size(draft: Draft) -> int | None:
    """How many trajectories the group will have, where the call says so."""
    size = draft.call.attribution.group_size if draft.call.attribution.group_key else draft.num_samples
    return size if size is not None and 1 < size < 1 << 31 else None


def _prompt_key(draft: Draft, window_seconds: int) -> str:
    digest = TokenIds.of(draft.prompt_ids or []).digest()
    tools = draft.call.request.get("tools")
    digest.update(b"null" if tools is None else json.dumps(tools, sort_keys=True).encode())
    bucket = int(draft.call.started_at.timestamp() // window_seconds)
    return f"{digest.hexdigest()[:32]}:{bucket}:{draft.call.version}"


def join_groups(connection: Connection, groups: Mapping[GroupKey, Wanted]) -> dict[GroupKey, UUID]:
    """The open group of each key, made where there is none, and locked against a claim until the commit."""
    joined: dict[GroupKey, UUID] = {}
    while missing := sorted(groups.keys() - joined.keys()):
        wanted = _columns(missing, groups)
        _, open_ones, _ = direct(connection).ask((_CONTINUE, wanted), (_LOCK_OPEN, wanted), (_TOUCH, wanted))
        joined |= {missing[number - 1]: id_ for number, id_ in open_ones}
    return joined


def lock_open(connection: Connection, group_ids: Collection[UUID]) -> set[UUID]:
    """Those that are open, locked against a claim until the commit; they have a new member."""
    return set(connection.scalars(_LOCK_KNOWN, {"ids": sorted(group_ids)})) if group_ids else set()


def _columns(keys: list[GroupKey], groups: Mapping[GroupKey, Wanted]) -> dict[str, list[object]]:
    return {
        "project_ids": [_uuid(key[0]) for key in keys],
        "policy_ids": [_uuid(key[1]) for key in keys],
        "kinds": [key[2] for key in keys],
        "keys": [key[3] for key in keys],
        "sizes": [groups[key].size for key in keys],
        "routes": [groups[key].route for key in keys],
        "ids": [new_id() for _ in keys],
    }
