"""What was judged about the members of a step, and by which rule: read once, when the step is built.

The rule is the views' own (schema v1); the step records it, so that a later change of the policy's is no riddle.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import Connection, text

_EVENTS = text(
    "SELECT id, trajectory_id, exchange_id, value FROM v1.rewards"
    " WHERE trajectory_id = ANY (CAST(:ids AS uuid[])) AND is_counted ORDER BY id"
)
_RULES = text("""
    UPDATE training_steps AS s SET settings = s.settings || jsonb_build_object('rewards', jsonb_build_object(
        'combination', p.combination, 'smallest', p.reward_min, 'largest', p.reward_max,
        'metrics', coalesce((
            SELECT jsonb_agg(to_jsonb(m) - 'policy_id' - 'created_at' ORDER BY m.name) FROM metrics AS m
            WHERE m.policy_id = p.id
        ), '[]')
    ))
    FROM policies AS p WHERE p.id = s.policy_id AND s.id = :id AND s.fencing_token = :token
""")


@dataclass(frozen=True, slots=True)
class Reward:
    """Example: Reward(0.5, (event,)). A value of None: nothing that counts was said."""

    value: float | None = None
    event_ids: tuple[UUID, ...] = ()


NOTHING = Reward()


@dataclass(frozen=True, slots=True)
class Judged:
    """Of one trajectory: over all its events, over those about it as a whole, and of replies that have their own.

    Example: one thumb up on turn 2 of 3 -> overall 1, whole None, of_exchanges {turn 2: 1}: turn 1 is unscored.
    """

    overall: Reward = NOTHING
    whole: Reward = NOTHING
    of_exchanges: dict[UUID, Reward] = field(default_factory=dict)

    @property
    def reward(self) -> float | None:
        return self.overall.value

    def of(self, exchange_id: UUID) -> Reward:
        return self.of_exchanges.get(exchange_id, self.whole)


def read_judged(connection: Connection, trajectory_ids: Sequence[UUID]) -> dict[UUID, Judged]:
    """Of each trajectory that has a reward."""
    rows = connection.execute(_EVENTS, {"ids": list(trajectory_ids)}).all()
    found: dict[UUID, list[tuple[UUID, UUID | None, float]]] = defaultdict(list)
    for row in rows:
        found[row.trajectory_id].append((row.id, row.exchange_id, row.value))
    return {id_: _judged(events) for id_, events in found.items()}


def record_rules(connection: Connection, step_id: UUID, fencing_token: int) -> None:
    """How judgements made rewards when this step read them: policy and metrics as they were."""
    connection.execute(_RULES, {"id": step_id, "token": fencing_token})


def _judged(events: list[tuple[UUID, UUID | None, float]]) -> Judged:
    places = {exchange_id for _, exchange_id, _ in events}
    of = {place: _mean([e for e in events if e[1] == place]) for place in places}
    return Judged(
        overall=_mean(events),
        whole=of.pop(None, NOTHING),
        of_exchanges={place: reward for place, reward in of.items() if place},
    )


def _mean(events: list[tuple[UUID, UUID | None, float]]) -> Reward:
    return Reward(sum(value for *_, value in events) / len(events), tuple(event[0] for event in events))
