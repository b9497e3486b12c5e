"""What was judged about the members of a step, and by which rule: read once, when the step is built.

The rule is the views' own (schema v1); the step records it, so that a later change of the policy's is no riddle.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.rewards.reading import ExchangeReward, exchange_rewards, trajectory_rewards

_RULES = text("""
    SELECT jsonb_build_object(
        'combination', p.combination, 'smallest', p.reward_min, 'largest', p.reward_max,
        'metrics', coalesce((
            SELECT jsonb_agg(to_jsonb(m) - 'policy_id' - 'created_at' ORDER BY m.name) FROM metrics AS m
            WHERE m.policy_id = p.id
        ), '[]')
    ) FROM policies AS p WHERE p.id = :policy_id
""")
_RECORD = text("""
    UPDATE training_steps SET settings = settings || jsonb_build_object('rewards', CAST(:rules AS jsonb))
    WHERE id = :id AND fencing_token = :token
""")


@dataclass(frozen=True, slots=True)
class Judged:
    """Of one trajectory: its reward, and that of each reply that has one.

    Example: one thumb up on turn 2 of 3 -> reward 1, of_exchanges {turn 2: 1}: turns 1 and 3 are unscored.
    """

    reward: float | None = None
    of_exchanges: Mapping[UUID, ExchangeReward] = field(default_factory=dict)


def read_judged(connection: Connection, trajectory_ids: Sequence[UUID]) -> dict[UUID, Judged]:
    """Of each trajectory that has a reward."""
    of_exchanges = exchange_rewards(connection, trajectory_ids)
    return {
        id_: Judged(reward, of_exchanges)
        for id_, reward in trajectory_rewards(connection, trajectory_ids).items()
    }


def read_rules(connection: Connection, policy_id: UUID) -> dict[str, Any]:
    """How judgements make rewards now: policy and metrics as they are."""
    rules: dict[str, Any] = connection.execute(_RULES, {"policy_id": policy_id}).scalar_one()
    return rules


def record_rules(connection: Connection, step_id: UUID, fencing_token: int, rules: Mapping[str, Any]) -> None:
    """How judgements made rewards when this step read them."""
    values = {"id": step_id, "token": fencing_token, "rules": json.dumps(rules)}
    connection.execute(_RECORD, values)
