"""Every change of a judge run's state, named: begun, refused, finished, failed (docs/decisions/0016-judging.md).

Invariant: one running run a group (a unique index); what is reserved and spent in 24 hours is added up under one lock;
whoever ends a run finds it still running, or ends nothing.
"""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.identifiers import new_id
from ledger.vocabulary import JudgeRunState

MAX_REASON = 500
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('slipstream:judge-budget', 0))")
_SPENT = text("""
    SELECT coalesce(sum(cost), 0) AS cost,
        coalesce(sum(coalesce(num_prompt_tokens, 0) + coalesce(num_completion_tokens, 0)), 0) AS num_tokens
    FROM judge_runs WHERE created_at > clock_timestamp() - INTERVAL '24 hours' AND state <> 'refused'
""")
# What it had reserved stays: nobody knows what its calls did cost.
_BURY = text("""
    UPDATE judge_runs SET state = 'failed', reason = 'its process ended before the scores were written',
        finished_at = clock_timestamp()
    WHERE group_id = :group_id AND state = 'running' AND expires_at < clock_timestamp()
""")
# A count and no time: a run's finished_at is older than its commit, and who reads in between sees none of its scores.
_IS_TAKEN = text("""
    SELECT count(*) FILTER (WHERE state = 'running') > 0 OR count(*) FILTER (WHERE state = 'finished') > :num_finished
    FROM judge_runs WHERE group_id = :group_id
""")
_BEGIN = text("""
    INSERT INTO judge_runs (id, project_id, policy_id, group_id, model, state, num_votes, num_calls, num_prompt_tokens,
        num_completion_tokens, cost, expires_at)
    VALUES (:id, :project_id, :policy_id, :group_id, :model, 'running', :num_votes, :num_calls, :num_prompt_tokens,
        :num_completion_tokens, :cost, clock_timestamp() + make_interval(secs => :seconds))
    ON CONFLICT (group_id) WHERE state = 'running' DO NOTHING
    RETURNING id
""")
_REFUSE = text("""
    INSERT INTO judge_runs (id, project_id, policy_id, group_id, model, state, num_votes, reason, expires_at, finished_at)
    SELECT :id, :project_id, :policy_id, :group_id, :model, 'refused', :num_votes, :reason, clock_timestamp(),
        clock_timestamp()
    WHERE NOT EXISTS (
        SELECT FROM judge_runs WHERE group_id = :group_id AND state = 'refused'
            AND created_at > clock_timestamp() - INTERVAL '24 hours'
    )
    RETURNING id
""")
_END = text("""
    UPDATE judge_runs SET state = :state, reason = :reason, is_outage = :is_outage, num_calls = :num_calls,
        num_prompt_tokens = :num_prompt_tokens, num_completion_tokens = :num_completion_tokens, cost = :cost,
        scores = CAST(:scores AS jsonb), finished_at = clock_timestamp()
    WHERE id = :id AND state = 'running'
""")
_IS_RESTING = text("""
    SELECT count(*) > 0 AND max(r.finished_at)
        + make_interval(secs => least(3600, 60 * 2 ^ least(count(*) - 1, 10))) > clock_timestamp()
    FROM judge_runs AS r
    WHERE r.is_outage AND r.created_at > clock_timestamp() - INTERVAL '24 hours' AND r.finished_at > coalesce((
        SELECT max(other.finished_at) FROM judge_runs AS other
        WHERE NOT other.is_outage AND other.state IN ('finished', 'failed')
            AND other.created_at > clock_timestamp() - INTERVAL '24 hours'
    ), '-infinity')
""")
_STATE = text("SELECT state FROM judge_runs WHERE id = :id")


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used, or at most will be. `cost`: US dollars; None = there is no price."""

    num_calls: int = 0
    num_prompt_tokens: int = 0
    num_completion_tokens: int = 0
    cost: float | None = None

    @property
    def num_tokens(self) -> int:
        return self.num_prompt_tokens + self.num_completion_tokens

    def __add__(self, other: "Usage") -> "Usage":
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            self.num_calls + other.num_calls,
            self.num_prompt_tokens + other.num_prompt_tokens,
            self.num_completion_tokens + other.num_completion_tokens,
            sum(costs) if costs else None,
        )

    @property
    def of_one_call(self) -> "Usage":
        """The share of each of the calls that it is of, rounded up. Example: of 4 calls and 10 tokens -> 3 tokens."""
        num = max(self.num_calls, 1)
        cost = None if self.cost is None else self.cost / num
        return Usage(1, -(-self.num_prompt_tokens // num), -(-self.num_completion_tokens // num), cost)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run that somebody wants to begin. `reserved`: what it may use at most. `seconds`: how long it may take.

    `num_finished`: how many runs of the group had finished when it was chosen, or read.
    """

    project_id: UUID
    policy_id: UUID
    group_id: UUID
    num_finished: int
    model: str
    num_votes: int
    reserved: Usage
    seconds: float


@dataclass(frozen=True, slots=True)
class Budget:
    """For 24 hours: US dollars, and tokens of prompts and answers together."""

    cost: float
    num_tokens: int


def spent(connection: Connection) -> Usage:
    """Of the last 24 hours, with what running runs have reserved. All tokens stand as the prompt's."""
    row = connection.execute(_SPENT).one()
    return Usage(0, int(row.num_tokens), 0, float(row.cost))


def begin(connection: Connection, wanted: Wanted, budget: Budget) -> tuple[UUID | None, str | None]:
    """The run's id; or None and why it is refused; or (None, None) if somebody else has the group, or just had it."""
    connection.execute(_LOCK)
    values = {
        "id": new_id(),
        **{name: getattr(wanted, name) for name in ("project_id", "policy_id", "group_id", "num_finished")},
        "model": wanted.model,
        "num_votes": wanted.num_votes,
        "seconds": wanted.seconds,
        **_numbers(wanted.reserved),
    }
    connection.execute(_BURY, values)
    if connection.scalar(_IS_TAKEN, values):
        return None, None
    if reason := over_budget(spent(connection), wanted.reserved, budget):
        connection.execute(_REFUSE, values | {"reason": reason})
        return None, reason
    return connection.scalar(_BEGIN, values), None


def over_budget(used: Usage, reserved: Usage, budget: Budget) -> str | None:
    """Why a run is refused; None = it fits."""
    if (used.cost or 0.0) + (reserved.cost or 0.0) > budget.cost:
        return (
            f"the budget of {budget.cost:g} US dollars in 24 hours is spent: {used.cost or 0.0:.4f} were, and this run "
            f"may cost {reserved.cost or 0.0:.4f} (SLIPSTREAM_JUDGE_BUDGET)"
        )
    if used.num_tokens + reserved.num_tokens > budget.num_tokens:
        return (
            f"the budget of {budget.num_tokens:,} tokens in 24 hours is spent: {used.num_tokens:,} were, and this run "
            f"may use {reserved.num_tokens:,} (SLIPSTREAM_JUDGE_TOKEN_BUDGET)"
        )
    return None


def finish(connection: Connection, run_id: UUID, usage: Usage, scores: dict[str, Any]) -> bool:
    """False if the run is not ours any more: then nothing may be written. Repeated after a lost answer: True."""
    said = {"state": JudgeRunState.FINISHED, "reason": None, "is_outage": False, "scores": json.dumps(scores)}
    if connection.execute(_END, {"id": run_id} | said | _numbers(usage)).rowcount:
        return True
    return str(connection.scalar(_STATE, {"id": run_id})) == JudgeRunState.FINISHED


def fail(connection: Connection, run_id: UUID, usage: Usage, reason: str, *, is_outage: bool = False) -> None:
    """`is_outage`: nobody answered, which says nothing of the group."""
    said = {
        "state": JudgeRunState.FAILED,
        "reason": reason[:MAX_REASON],
        "is_outage": is_outage,
        "scores": None,
    }
    connection.execute(_END, {"id": run_id} | said | _numbers(usage))


def is_resting(connection: Connection) -> bool:
    """Whether the judge did not answer a moment ago: a minute, and twice as long with each outage in a row, up to an hour."""
    return bool(connection.scalar(_IS_RESTING))


def _numbers(usage: Usage) -> dict[str, Any]:
    return {
        "num_calls": usage.num_calls,
        "num_prompt_tokens": usage.num_prompt_tokens,
        "num_completion_tokens": usage.num_completion_tokens,
        "cost": usage.cost,
    }
