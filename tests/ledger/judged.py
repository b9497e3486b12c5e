"""Posting rewards in tests of the ledger."""

from typing import Any

from sqlalchemy import Connection

from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost

COUNTED = "SELECT trajectory_id, exchange_id, value, not_counted_reason FROM v1.rewards ORDER BY id"


def post(
    connection: Connection, target: Any, value: float | None = 1.0, project: str = "default", **more: Any
) -> Any:
    return post_reward(connection, project, RewardPost(str(target), value=value, **more))
