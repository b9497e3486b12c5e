"""Rewards: append-only judgements, and the reward of a trajectory, or of an exchange, as views over them.

Written by ledger.rewards.posting, each once, whoever posts it and how often (I5). A later judgement always has a later id.
What counts, and what it makes together, stands in the views alone (migration 0010).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text

_REWARDS = text("""
    SELECT trajectory_id, reward FROM v1.trajectory_rewards WHERE trajectory_id = ANY (CAST(:ids AS uuid[]))
""")
_EXCHANGE_REWARDS = text("""
    SELECT e.id, coalesce(own.reward, whole.whole_reward) AS reward,
        coalesce(own.event_ids, whole.whole_event_ids) AS event_ids, own.reward IS NOT NULL AS is_own
    FROM exchanges AS e
    LEFT JOIN (
        SELECT * FROM v1.exchange_rewards WHERE trajectory_id = ANY (CAST(:ids AS uuid[]))
    ) AS own ON own.exchange_id = e.id
    LEFT JOIN (
        SELECT * FROM v1.trajectory_rewards WHERE trajectory_id = ANY (CAST(:ids AS uuid[]))
    ) AS whole ON whole.trajectory_id = e.trajectory_id
    WHERE e.trajectory_id = ANY (CAST(:ids AS uuid[])) AND coalesce(own.reward, whole.whole_reward) IS NOT NULL
""")


@dataclass(frozen=True, slots=True)
class ExchangeReward:
    """Example: a thumb on one reply of a conversation -> reward 1.0, of one event, is_own."""

    reward: float
    event_ids: tuple[UUID, ...]
    is_own: bool  # False: of the events that judge its whole trajectory


def trajectory_rewards(connection: Connection, trajectory_ids: Sequence[UUID]) -> dict[UUID, float]:
    """The reward of each trajectory that has one, by the rule of its policy (v1.trajectory_rewards)."""
    rows = connection.execute(_REWARDS, {"ids": list(trajectory_ids)})
    return {row.trajectory_id: row.reward for row in rows}


def exchange_rewards(connection: Connection, trajectory_ids: Sequence[UUID]) -> dict[UUID, ExchangeReward]:
    """The reward of each exchange of these trajectories that has one: its own, else that of the whole."""
    rows = connection.execute(_EXCHANGE_REWARDS, {"ids": list(trajectory_ids)})
    return {row.id: ExchangeReward(row.reward, tuple(row.event_ids), row.is_own) for row in rows}
