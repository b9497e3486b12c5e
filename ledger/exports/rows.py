"""The rows of an export, one after the other, from one snapshot: memory holds some trajectories, whatever the size.

A turn needs its parents, so rows are read by trajectory, all of them, and those that were not asked for are left out.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.exports.columns import COLUMNS, DIGESTS, EXPORT_VERSION, OF_GROUP, OF_TRAJECTORY, STORED, Kind
from ledger.exports.filters import Filters
from ledger.exports.judgements import rewards_of, samples_of
from ledger.exports.whole import Wholes, in_chunks
from ledger.rewards.reading import trajectory_rewards

Values = Mapping[str, Any]
_TRAJECTORIES = 100  # at once
_ROWS = 50
_AS_TEXT = (Kind.JSON, Kind.IDS, Kind.REALS)
_FROM = "exchanges AS e LEFT JOIN trajectories AS t ON t.id = e.trajectory_id"
_STORED = ", ".join(
    f"CAST(e.{name} AS text) AS {name}" if kind in _AS_TEXT else f"e.{name}" for name, kind in STORED.items()
)
_DIGESTS = ", ".join(f"encode(e.{name}, 'hex') AS {name}" for name in DIGESTS)
_QUERY = f"""
    SELECT e.id, e.trajectory_id, p.name AS project, policy.name AS policy, policy.base_model, e.version,
        v.adapter_sha256, e.parent_exchange_id, e.num_shared_tokens, e.num_shared_messages, e.num_messages,
        CAST(e.messages AS text) AS messages, CAST(e.prompt_ids AS text) AS prompt_ids, {_STORED}, {_DIGESTS},
        t.external_id, t.identified_by AS trajectory_identified_by, t.choice_index AS trajectory_choice_index,
        CAST(t.metadata AS text) AS metadata, t.end_user, g.id AS group_id, g.kind AS group_kind,
        g.key AS group_key, g.sequence AS group_sequence, g.size AS group_size, g.state AS group_state,
        g.reason AS group_reason, ({{condition}}) AS is_wanted
    FROM {_FROM}
    JOIN projects AS p ON p.id = e.project_id
    JOIN policies AS policy ON policy.id = e.policy_id
    LEFT JOIN policy_versions AS v ON v.policy_id = e.policy_id AND v.version = e.version
    LEFT JOIN groups AS g ON g.id = t.group_id
    WHERE e.trajectory_id = ANY (:trajectory_ids) ORDER BY e.trajectory_id, e.id
"""  # noqa: S608 - constants
_LAST_CHILDREN = text("""
    SELECT DISTINCT ON (parent_exchange_id) parent_exchange_id, id FROM exchanges
    WHERE trajectory_id = ANY (:ids) AND parent_exchange_id IS NOT NULL ORDER BY parent_exchange_id, id DESC
""")
_SAME = {
    name for name in COLUMNS if name in STORED or name in DIGESTS or name in OF_TRAJECTORY or name in OF_GROUP
}


def count_rows(connection: Connection, filters: Filters) -> int:
    query = f"SELECT count(*) FROM {_FROM} WHERE {filters.condition}"  # noqa: S608 - constants
    return int(connection.execute(text(query), filters.values).scalar_one())


def export_rows(connection: Connection, filters: Filters) -> Iterator[dict[str, Any]]:
    """Rows by COLUMNS, by trajectory and turn. Open a transaction (REPEATABLE READ) before."""
    found = f"SELECT DISTINCT e.trajectory_id FROM {_FROM} WHERE {filters.condition} ORDER BY 1"  # noqa: S608 - constants
    query = _streamed(_QUERY.format(condition=filters.condition), _ROWS)
    with closing(connection.execute(_streamed(found, _TRAJECTORIES), filters.values)) as ids:
        for chunk in in_chunks(iter(ids.scalars()), _TRAJECTORIES):
            yield from _of_trajectories(connection, query, filters, chunk)


def _streamed(query: str, at_once: int) -> Any:
    """A server-side cursor: neither side holds more than so many rows."""
    return text(query).execution_options(stream_results=True, yield_per=at_once)


def _of_trajectories(
    connection: Connection, query: Any, filters: Filters, ids: Sequence[UUID]
) -> Iterator[dict[str, Any]]:
    children = connection.execute(_LAST_CHILDREN, {"ids": ids})
    last_child: dict[UUID, UUID] = {row.parent_exchange_id: row.id for row in children}
    of_trajectory = {
        "reward": trajectory_rewards(connection, ids),
        "rewards": rewards_of(connection, ids),
        "samples": samples_of(connection, ids),
    }
    wholes: dict[UUID, Wholes] = defaultdict(lambda: Wholes(last_child))
    with closing(connection.execute(query, {**filters.values, "trajectory_ids": ids})) as found:
        for row in found:
            if row.trajectory_id not in wholes:
                wholes.clear()
            prompt_ids, messages = wholes[row.trajectory_id].whole(row)
            if row.is_wanted:
                yield _row(row, prompt_ids, messages, of_trajectory)


def _row(
    row: Any, prompt_ids: str | None, messages: str | None, of_trajectory: Mapping[str, Any]
) -> dict[str, Any]:
    values = row._mapping  # noqa: SLF001 - public, despite its underscore
    found = {
        **{
            name: values[name]
            for name in ("id", "trajectory_id", "project", "policy", "base_model", "version")
        },
        **{name: values[name] for name in _SAME},
        "export_version": EXPORT_VERSION,
        "adapter_sha256": row.adapter_sha256,
        "messages": messages,
        "prompt_ids": prompt_ids,
        "completion_ids": _inner(row.completion_ids),
        "logprobs": _inner(row.logprobs),
        "reward": of_trajectory["reward"].get(row.trajectory_id),
        "rewards": of_trajectory["rewards"].json(row.trajectory_id, row.id),
        "samples": of_trajectory["samples"].json(row.trajectory_id, row.id),
    }
    return {name: found[name] for name in COLUMNS}


def _inner(text_: str | None) -> str | None:
    return None if text_ is None else text_[1:-1]
