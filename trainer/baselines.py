"""The running baselines of a policy's routes, in Postgres: read, and moved by the one step that is being built.

Invariant: a reward moves its route's baseline once, in the transaction that freezes the samples of its step; a row that
somebody else moved in between is not overwritten: then the lease is lost.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text

from trainer.claim import Step
from trainer.errors import LeaseLostError
from trainer.grpo.advantages import Running, folded

_READ = text(
    "SELECT route, mean, variance, num_samples FROM route_baselines"
    " WHERE policy_id = :policy_id AND route = ANY (CAST(:routes AS text[]))"
)
# Only this step's earlier attempt could have written, and it did not commit.
_SEEN = text(
    "SELECT DISTINCT x.trajectory_id FROM step_samples AS x"
    " JOIN training_steps AS s ON s.id = x.step_id AND s.kind = 'grpo'"
    " WHERE x.trajectory_id = ANY (CAST(:ids AS uuid[])) AND x.step_id <> :step_id"
    " AND coalesce(x.trajectory_reward, x.reward) IS NOT NULL"
)
_WRITE = text("""
    INSERT INTO route_baselines AS b (policy_id, route, mean, variance, num_samples, step_id)
    VALUES (:policy_id, :route, :mean, :variance, :num_samples, :step_id)
    ON CONFLICT (policy_id, route) DO UPDATE SET mean = excluded.mean, variance = excluded.variance,
        num_samples = excluded.num_samples, step_id = excluded.step_id, updated_at = clock_timestamp()
    WHERE b.num_samples = :num_before
""")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a usable trajectory brings to a baseline (trainer.ladder.Usable)."""

    trajectory_id: UUID
    group_id: UUID
    route: str | None
    reward: float


def read_running(connection: Connection, policy_id: UUID, routes: Iterable[str]) -> dict[str, Running]:
    values = {"policy_id": policy_id, "routes": sorted(routes)}
    return {
        row.route: Running(row.mean, row.variance, row.num_samples)
        for row in connection.execute(_READ, values)
    }


def move_running(
    connection: Connection, step: Step, seen: Iterable[Seen], before: Mapping[str, Running], window: int
) -> None:
    """Fold in the rewards that no step has read yet, in the order of their trajectories' ids."""
    by_id = {each.trajectory_id: each for each in seen if each.route is not None}
    values = {"ids": list(by_id), "step_id": step.id}
    known = set(connection.scalars(_SEEN, values)) if by_id else set()
    rewards: dict[str, list[float]] = defaultdict(list)
    for trajectory_id in sorted(by_id.keys() - known):
        each = by_id[trajectory_id]
        rewards[str(each.route)].append(each.reward)
    for route in sorted(rewards):  # one order for all, so that nobody waits in a circle
        _move(connection, step, route, rewards[route], before.get(route), window)


def _move(
    connection: Connection, step: Step, route: str, rewards: list[float], before: Running | None, window: int
) -> None:
    running = before
    for reward in rewards:
        running = folded(running, reward, window)
    assert running is not None, "a route is here for its rewards"
    values = {
        "policy_id": step.policy_id,
        "route": route,
        "mean": running.mean,
        "variance": running.variance,
        "num_samples": running.num_samples,
        "num_before": before.num_samples if before else None,
        "step_id": step.id,
    }
    if connection.execute(_WRITE, values).rowcount != 1:
        raise LeaseLostError
