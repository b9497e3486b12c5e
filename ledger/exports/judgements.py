"""What was judged and learned of the exchanges of an export, as JSON beside each of them."""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.exports.jsonl import plain

# As columns hold it: text storable, and a judgement of the whole trajectory stands beside each of its exchanges.
_REWARDS = text("""
    SELECT trajectory_id AS of_trajectory, exchange_id AS of_exchange, id, target, exchange_id, metric, value, content,
        comment, source, is_retraction, observed_at, created_at, is_counted, not_counted_reason, idempotency_id,
        is_final, is_whole, comparison_id, score
    FROM v1.rewards AS v WHERE trajectory_id = ANY (:ids) ORDER BY id
""")
_SAMPLES = text("""
    SELECT trajectory_id AS of_trajectory, exchange_id AS of_exchange, step_id, version, step_state, reward, baseline,
        baseline_kind, advantage, staleness, is_used, reason
    FROM v1.lineage WHERE trajectory_id = ANY (:ids) ORDER BY version, step_id
""")


class Beside:
    """By trajectory, and by exchange where one is named."""

    def __init__(self, rows: Any) -> None:
        self._found: dict[tuple[UUID, UUID | None], list[dict[str, Any]]] = defaultdict(list)
        for row in rows.mappings():
            values = {name: plain(value) for name, value in row.items() if not name.startswith("of_")}
            self._found[row["of_trajectory"], row["of_exchange"]].append(values)

    def json(self, trajectory_id: UUID, exchange_id: UUID) -> str:
        of = self._found
        found = of.get((trajectory_id, None), []) + of.get((trajectory_id, exchange_id), [])
        return json.dumps(found, ensure_ascii=False)


def rewards_of(connection: Connection, trajectory_ids: Sequence[UUID]) -> Beside:
    return Beside(connection.execute(_REWARDS, {"ids": list(trajectory_ids)}))


def samples_of(connection: Connection, trajectory_ids: Sequence[UUID]) -> Beside:
    return Beside(connection.execute(_SAMPLES, {"ids": list(trajectory_ids)}))
