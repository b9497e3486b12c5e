"""How much signal there is, by policy, in the last days: captured, scored, ready, used, and what is missing.

Shadow siblings are no traffic: they are counted by themselves, and stand in groups, steps and what was used.
Invariant: each question reads a range of ids, never a whole table, and the rules stand in the views and in ledger.groups.readiness.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, text

from ledger.evidence import FORMULA, evidence_of
from ledger.groups.waiting import next_step
from ledger.policies import Policy, read_policies
from ledger.reading import plain
from ledger.vocabulary import Reason

MAX_SCORED = 5_000  # of all policies: the newest ones tell the spread well enough
_SINCE = text("SELECT v1.first_id_at(now() - CAST(:period AS interval))")
_CAPTURED = text("""
    SELECT policy_id, is_shadow, untrainable_reason AS reason, count(*) AS number
    FROM exchanges WHERE id >= :since GROUP BY 1, 2, 3
""")
_EVENTS = text("""
    SELECT project, policy, metric, not_counted_reason AS reason, count(*) AS number
    FROM v1.rewards WHERE id >= :since AND NOT is_shadow GROUP BY 1, 2, 3, 4
""")
_NUM_SCORED = text("""
    SELECT project, policy, count(DISTINCT trajectory_id) AS number
    FROM v1.rewards WHERE id >= :since AND is_counted AND NOT is_shadow GROUP BY 1, 2
""")
_NEWEST = text("""
    SELECT DISTINCT trajectory_id FROM v1.rewards WHERE id >= :since AND is_counted AND NOT is_shadow
    ORDER BY trajectory_id DESC LIMIT :max_scored
""")
_BY_VERSION = text("""
    SELECT t.policy_id, e.version, array_agg(r.reward ORDER BY t.id) AS rewards
    FROM (SELECT id, policy_id FROM trajectories WHERE id = ANY (CAST(:ids AS uuid[]))) AS t
    JOIN (
        SELECT trajectory_id, reward FROM v1.trajectory_rewards WHERE trajectory_id = ANY (CAST(:ids AS uuid[]))
    ) AS r ON r.trajectory_id = t.id
    JOIN (
        SELECT trajectory_id, min(version) AS version FROM exchanges
        WHERE trajectory_id = ANY (CAST(:ids AS uuid[])) AND id >= :since AND version IS NOT NULL GROUP BY 1
    ) AS e ON e.trajectory_id = t.id
    GROUP BY 1, 2
""")
_GROUPS = text("""
    SELECT policy_id, state, reason, count(*) AS number FROM groups WHERE id >= :since GROUP BY 1, 2, 3
""")
_USED = text("""
    SELECT s.policy_id, count(*) FILTER (WHERE x.is_used) AS num_exchanges,
        count(DISTINCT x.trajectory_id) FILTER (WHERE x.is_used) AS num_trajectories,
        coalesce(sum(x.num_completion_tokens) FILTER (WHERE x.is_used), 0) AS num_tokens
    FROM training_steps AS s JOIN step_samples AS x ON x.step_id = s.id
    WHERE s.id >= :since AND s.state = 'published' GROUP BY 1
""")
_STEPS = text("""
    SELECT policy_id, state, count(*) AS number FROM training_steps WHERE id >= :since GROUP BY 1, 2
""")
_JUDGED = text("""
    SELECT policy_id, state, count(*) AS number, coalesce(sum(cost), 0) AS cost,
        CAST(coalesce(sum(num_prompt_tokens), 0) + coalesce(sum(num_completion_tokens), 0) AS bigint) AS num_tokens,
        (array_agg(reason ORDER BY id DESC))[1] AS newest_reason
    FROM judge_runs WHERE created_at >= now() - CAST(:period AS interval) GROUP BY 1, 2 ORDER BY 1, 2
""")


def read_signal(connection: Connection, *, days: float, effect: float) -> dict[str, dict[str, Any]]:
    """By line of each policy. `effect` is the improvement that the rewards should be able to show, in units of reward."""
    since = connection.scalar(_SINCE, {"period": timedelta(days=days)})
    period = {"since": since, "max_scored": MAX_SCORED, "period": timedelta(days=days)}
    policies = read_policies(connection)
    found = {
        policy.line: {"live_version": policy.live_version, "base_model": policy.base_model}
        for policy in policies
    }
    for policy, part in _parts(connection, policies, period, effect):
        found[policy.line] |= part
    return {line: plain(signal) for line, signal in found.items()}


def _parts(
    connection: Connection, policies: list[Policy], period: Mapping[str, Any], effect: float
) -> list[tuple[Policy, dict[str, Any]]]:
    captured = _by(connection, _CAPTURED, period, "policy_id")
    groups = _by(connection, _GROUPS, period, "policy_id")
    steps = _by(connection, _STEPS, period, "policy_id")
    used = _by(connection, _USED, period, "policy_id")
    judged = _by(connection, _JUDGED, period, "policy_id")
    events = _by(connection, _EVENTS, period, "project", "policy")
    scored = _by(connection, _NUM_SCORED, period, "project", "policy")
    newest = {**period, "ids": list(connection.scalars(_NEWEST, period))}
    by_version = _by(connection, _BY_VERSION, newest, "policy_id")
    found = []
    for policy in policies:
        name = (policy.project, policy.name)
        rewards = {row["version"]: row["rewards"] for row in by_version[policy.id,]}
        found.append(
            (
                policy,
                _captured(captured[policy.id,])
                | {"events": _events(events[name]), "num_scored": sum(row["number"] for row in scored[name])}
                | {"groups": _groups(groups[policy.id,])}
                | {"steps": {row["state"]: row["number"] for row in steps[policy.id,]}}
                | {"used": _used(used[policy.id,])}
                | {"judged": _judged(judged[policy.id,])}
                | {"next_step": next_step(connection, policy.id)}
                | {"evidence": _evidence(rewards, effect)},
            )
        )
    return found


def _judged(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What judge models did and cost; why the newest run of each state failed or was refused."""
    reasons = {row["state"]: row["newest_reason"] for row in rows if row["newest_reason"]}
    return {
        "by_state": {row["state"]: row["number"] for row in rows},
        "cost": sum(row["cost"] for row in rows),
        "num_tokens": sum(row["num_tokens"] for row in rows),
        "newest_reasons": reasons,
    }


def _by(
    connection: Connection, question: Any, period: Mapping[str, Any], *names: str
) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Its rows by these columns; none where there is none."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in connection.execute(question, period).mappings():
        found[tuple(row[name] for name in names)].append(dict(row))
    return found


def _captured(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of users' calls; `num_shadow` beside them."""
    numbers = {row["reason"]: row["number"] for row in rows if not row["is_shadow"]}
    num_captured, num_trainable = sum(numbers.values()), numbers.pop(None, 0)
    greedy = numbers.get(Reason.GREEDY, 0)
    return {
        "num_captured": num_captured,
        "num_trainable": num_trainable,
        "num_shadow": sum(row["number"] for row in rows if row["is_shadow"]),
        "untrainable": dict(sorted(numbers.items(), key=lambda item: (-item[1], item[0]))),
        "greedy_share": greedy / num_captured if num_captured else 0.0,
    }


def _events(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """By metric, how many count, and how many do not, by reason."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        of = found.setdefault(row["metric"], {"num_counted": 0, "not_counted": {}})
        if row["reason"] is None:
            of["num_counted"] += row["number"]
        else:
            of["not_counted"][row["reason"]] = row["number"]
    return dict(sorted(found.items()))


def _groups(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """By state, and which share of those that a step looked at had no variance."""
    states: dict[str, int] = defaultdict(int)
    for row in rows:
        states[row["state"]] += row["number"]
    flat = sum(row["number"] for row in rows if row["reason"] == Reason.NO_VARIANCE)
    looked_at = states["trained"] + states["skipped"]
    return {
        "by_state": {state: number for state, number in sorted(states.items()) if number},
        "no_variance_share": flat / looked_at if looked_at else None,
    }


def _used(rows: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("num_exchanges", "num_trajectories", "num_tokens")
    return {name: int(rows[0][name]) if rows else 0 for name in names}


def _evidence(rewards: Mapping[int, list[float]], effect: float) -> dict[str, Any]:
    evidence = evidence_of(rewards, effect)
    by_version = {str(version): len(values) for version, values in sorted(rewards.items())}
    return asdict(evidence) | {
        "versions": list(evidence.versions),
        "num_rewards_by_version": by_version,
        "could_show": evidence.could_show,
        "unknown_reason": evidence.unknown_reason,
        "formula": FORMULA,
    }
