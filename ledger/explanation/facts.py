"""All that is known about why one trajectory was, or was not, trained: read in one transaction, changed by nobody.

Invariant: the rules stand in the views and in ledger.groups.readiness; here they are only read. Ids of another project are unknown.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.explanation.story import story_of
from ledger.explanation.words import REMEDY, WAITING_REMEDY
from ledger.groups.waiting import open_group, readiness_of
from ledger.reading import find_trajectory, plain
from ledger.rewards.early import early_without_choice
from ledger.rewards.reading import ExchangeReward, exchange_rewards
from ledger.vocabulary import GroupState, StepKind, StepState, Verdict, WaitsFor
from ledger.workers import Worker, worker_of

MAX_MEMBERS = 100
SAME = 1e-9  # rewards are sums in floating point
_ENDED = (StepState.PUBLISHED, StepState.SKIPPED)
_TRAJECTORY = text("""
    SELECT v.id, v.project, v.policy, v.external_id, v.identified_by, v.choice_index, v.group_id, v.created_at, v.erased_at,
        v.verdict, v.verdict_reason, v.is_trainable, v.untrainable_reason, v.reward, v.num_rewards, v.num_exchanges,
        v.num_retries, v.route, v.is_shadow, v.is_final, v.is_reward_changed, v.reward_when_trained, t.policy_id, p.combination, p.reward_min, p.reward_max, p.live_version
    FROM v1.trajectories AS v JOIN trajectories AS t ON t.id = v.id JOIN policies AS p ON p.id = t.policy_id
    WHERE v.id = :id
""")
_EXCHANGES = text("""
    SELECT v.id, v.version, v.model, v.answered_model, v.endpoint, v.status, v.finish_reason, v.temperature, v.turn_type,
        v.num_retries, v.retry_of, v.num_prompt_tokens, v.num_completion_tokens, v.started_at, v.erased_at,
        v.is_trainable, v.untrainable_reason, v.verdict, v.verdict_reason, v.is_explored, v.is_shadow
    FROM v1.exchanges AS v WHERE v.trajectory_id = :id ORDER BY v.id
""")
# compared_with: the other side of a comparison, by the narrowest id that there is
_EVENTS = text("""
    SELECT r.*, CASE
            WHEN c.preferred_trajectory_id = r.trajectory_id AND c.preferred_exchange_id IS NOT DISTINCT FROM r.exchange_id
            THEN coalesce(CAST(coalesce(c.other_exchange_id, c.other_trajectory_id) AS text), c.other_target)
            ELSE coalesce(CAST(coalesce(c.preferred_exchange_id, c.preferred_trajectory_id) AS text), c.preferred_target)
        END AS compared_with
    FROM v1.rewards AS r LEFT JOIN v1.comparisons AS c ON c.id = r.comparison_id
    WHERE r.trajectory_id = :id ORDER BY r.id
""")
_SAMPLES = text("""
    SELECT x.exchange_id, x.step_id, s.version AS step_version, s.parent_version, s.state AS step_state, s.kind AS step_kind,
        s.reason AS step_reason, s.created_at AS step_created_at, s.finished_at AS step_finished_at, x.group_id,
        x.reward, x.trajectory_reward, x.reward_event_ids, x.baseline, x.baseline_kind, x.num_baseline_samples,
        x.advantage, x.staleness, x.num_completion_tokens, x.is_used, x.reason
    FROM step_samples AS x JOIN training_steps AS s ON s.id = x.step_id
    WHERE x.trajectory_id = :id ORDER BY x.step_id, x.exchange_id
""")
_GROUP = text("""
    SELECT g.id, g.kind, g.key, g.sequence, g.size, g.state, g.reason, g.step_id, g.route, g.last_member_at, g.created_at,
        g.reward_mean AS stored_mean, g.num_scored AS num_stored, s.version AS step_version, m.*
    FROM groups AS g
    LEFT JOIN training_steps AS s ON s.id = g.step_id
    CROSS JOIN LATERAL (
        SELECT count(*) AS num_members, count(v.reward) AS num_scored, count(*) FILTER (WHERE v.is_final) AS num_final,
            avg(v.reward) AS reward_mean, min(v.reward) AS reward_min, max(v.reward) AS reward_max
        FROM v1.trajectories AS v WHERE v.group_id = g.id
    ) AS m
    WHERE g.id = :id
""")
_MEMBERS = text("""
    SELECT v.id, v.reward, v.verdict, v.verdict_reason FROM v1.trajectories AS v
    WHERE v.group_id = :group_id ORDER BY v.id LIMIT :limit
""")


def read_explanation(connection: Connection, project: str, text_id: str) -> dict[str, Any] | None:
    """The explanation of the trajectory that this id names (its own, a reply's, or the caller's); None = unknown."""
    trajectory_id = find_trajectory(connection, project, text_id)
    row = trajectory_id and connection.execute(_TRAJECTORY, {"id": trajectory_id}).mappings().first()
    if not row:
        return None
    found = dict(row)
    policy_id = found.pop("policy_id")
    worker = worker_of(connection, policy_id)
    turns = _exchanges(connection, found["id"])
    explained = {
        "object": "explanation",
        **found,
        "exchanges": turns,
        "events": [dict(event) for event in connection.execute(_EVENTS, {"id": found["id"]}).mappings()],
        "without_choice": early_without_choice(connection, project, [turn["id"] for turn in turns]),
        "group": _group(connection, found["group_id"], policy_id, worker),
        "worker": worker and asdict(worker),
    }
    explained["remedies"] = _remedies(explained)
    explained["story"] = story_of(explained)
    return plain(explained)


def _exchanges(connection: Connection, trajectory_id: UUID) -> list[dict[str, Any]]:
    """Each with its reward as it is now, and the steps that looked at it, oldest first."""
    rewards = exchange_rewards(connection, [trajectory_id])
    samples: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
    for row in connection.execute(_SAMPLES, {"id": trajectory_id}).mappings():
        now = _reward(rewards.get(row["exchange_id"]))["reward"]
        is_changed = row["step_kind"] == StepKind.GRPO and row["step_state"] in _ENDED
        is_changed = is_changed and _differs(row["reward"], now)
        samples[row["exchange_id"]].append({**row, "is_reward_changed": is_changed})
    return [
        {**row, **_reward(rewards.get(row["id"])), "samples": samples[row["id"]]}
        for row in connection.execute(_EXCHANGES, {"id": trajectory_id}).mappings()
    ]


def _reward(reward: ExchangeReward | None) -> dict[str, Any]:
    """`is_reward_own`: it was judged itself; else its trajectory was."""
    if reward is None:
        return {"reward": None, "is_reward_own": False}
    return {"reward": reward.reward, "is_reward_own": reward.is_own}


def _differs(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before is not now
    return abs(before - now) > SAME


def _group(
    connection: Connection, group_id: UUID | None, policy_id: UUID, worker: Worker | None
) -> dict[str, Any] | None:
    """The group, its members (the first hundred), and where it is open what it waits for and until when."""
    row = connection.execute(_GROUP, {"id": group_id}).mappings().first()
    if row is None:
        return None
    members = connection.execute(_MEMBERS, {"group_id": group_id, "limit": MAX_MEMBERS}).mappings()
    return {
        **row,
        "waiting": _waiting(connection, row, policy_id, worker),
        "members": [dict(member) for member in members],
    }


def _waiting(
    connection: Connection, group: Mapping[Any, Any], policy_id: UUID, worker: Worker | None
) -> dict[str, Any] | None:
    """None where it is not open, or nobody knows by which limits it waits."""
    if group["state"] != GroupState.OPEN or worker is None:
        return None
    return asdict(open_group(connection, policy_id, group["id"], readiness_of(worker)))


def _remedies(explained: dict[str, Any]) -> list[str]:
    """What would make it train, by verdict: nothing where it was."""
    words = [explained["verdict_reason"], *(turn["verdict_reason"] for turn in explained["exchanges"])]
    if explained["verdict"] == Verdict.TRAINED:
        return []
    waiting = (explained["group"] or {}).get("waiting")
    return [
        remedy
        for word in dict.fromkeys(filter(None, words))
        for remedy in (
            [WAITING_REMEDY[what] for what in waiting["waits_for"]]
            if waiting and word == WaitsFor.GROUP_OPEN
            else [REMEDY[word]]
        )
    ]
