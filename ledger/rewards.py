"""Rewards: append-only judgements, and the reward of a trajectory as a view over them.

Written by ledger.posting, each once, whoever posts it and how often (I5). A later judgement always has a later id.
"""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.posting import Answer, post_reward, post_rewards
from ledger.reward_posts import Posting, RewardPost, RewardResult

__all__ = [
    "Answer",
    "Posting",
    "RewardPost",
    "RewardResult",
    "post_reward",
    "post_rewards",
    "trajectory_rewards",
]

_REWARDS = text("""
    SELECT trajectory_id, avg(value) AS reward FROM v1.rewards
    WHERE trajectory_id = ANY (CAST(:ids AS uuid[])) AND is_counted GROUP BY trajectory_id
""")


def trajectory_rewards(connection: Connection, trajectory_ids: Sequence[UUID]) -> dict[UUID, float]:
    """The reward of each trajectory that has one: the mean of the events that count (see v1.rewards)."""
    rows = connection.execute(_REWARDS, {"ids": list(trajectory_ids)})
    return {row.trajectory_id: row.reward for row in rows}
