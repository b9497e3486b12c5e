"""A judge run, from a group to its reward events: read, begin, vote, finish.

Invariant: scores are written in the transaction that finishes the run, if it is still running; whatever keeps them from
being written leaves none.
"""

import secrets
from dataclasses import dataclass, field
from time import sleep
from typing import Any
from uuid import UUID

import psycopg
import structlog
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from ledger.errors import LedgerError
from ledger.rewards.posting import post_rewards
from ledger.rewards.posts import Posting, RewardPost
from ledger.vocabulary import JUDGE_SOURCE, GroupState, JudgeRunState
from trainer.judge import transitions
from trainer.judge.errors import JudgeError
from trainer.judge.group import MIN_MEMBERS, JudgedGroup, read_group
from trainer.judge.model import GRACE_SECONDS, JudgeModel
from trainer.judge.process import START_SECONDS
from trainer.judge.prompt import Attempt, Prompt, make_prompt
from trainer.judge.settings import JudgeSettings
from trainer.judge.tally import Tally, scores_of, tallied
from trainer.judge.transitions import Budget, Usage, Wanted
from trainer.judge.vote import CALLS_PER_VOTE, Vote, vote

logger = structlog.get_logger()
_BYTES_PER_TOKEN = 3  # fewer than most tokens have: what is reserved is rather too much
_FINISH_ATTEMPTS = 5
_PRESENT = text("SELECT id FROM trajectories WHERE id = ANY (CAST(:ids AS uuid[])) ORDER BY id")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a group. `state` None: there was nothing to judge, or another process has it; `reason` says which."""

    group_id: UUID
    state: JudgeRunState | None
    reason: str | None = None
    run_id: UUID | None = None
    usage: Usage = field(default_factory=Usage)
    rewards: dict[UUID, float] = field(default_factory=dict)
    is_outage: bool = False


@dataclass(frozen=True, slots=True)
class Judge:
    """Who judges, and how. `rescores`: members that a person scored get a judge's score, too."""

    settings: JudgeSettings
    model: JudgeModel
    rubric: str
    rescores: bool = False

    def prompt(self, attempts: list[Attempt], seed: str) -> Prompt:
        return make_prompt(attempts, self.rubric, seed, self.settings.max_characters)


def judge_group(engine: Engine, judge: Judge, group_id: UUID, num_finished: int | None = None) -> Outcome:
    """Score one group, unless more than `num_finished` runs of it have finished: it was chosen before they had.

    None = somebody wants it judged, whatever was. Raises JudgeUnusableError where no group could be judged, and what
    Postgres raises.
    """
    with engine.begin() as connection:
        group = read_group(connection, group_id)
    attempts = group.attempts(rescores=judge.rescores) if group else []
    if group is None or (reason := why_not(group, attempts)):
        return Outcome(group_id, None, reason if group else "there is no such group")
    reserved = reserve(judge, attempts)
    with engine.begin() as connection:
        run_id, refusal = transitions.begin(
            connection, wanted(judge, group, reserved, num_finished), budget_of(judge.settings)
        )
    if run_id is None:
        if refusal:
            logger.warning("judge_run_refused", group_id=str(group_id), reason=refusal)
            return Outcome(group_id, JudgeRunState.REFUSED, refusal)
        return Outcome(group_id, None, "another process judges it, or just did")
    return _run(engine, judge, group, attempts, run_id, reserved.of_one_call)


def why_not(group: JudgedGroup, attempts: list[Attempt]) -> str | None:
    """Why a group is not judged; None = it can be."""
    if group.state != GroupState.OPEN:
        return f"it is {group.state}"
    if not group.scale.is_counted:
        return (
            f"policy {group.policy} declares the metric reward with weight 0: no score of a judge would count"
        )
    if len(attempts) < MIN_MEMBERS:
        return f"it has {len(attempts)} members that can be read: there is nothing to compare"
    if all(attempt.known is not None for attempt in attempts):
        return "all its members are scored"
    return None


def reserve(judge: Judge, attempts: list[Attempt]) -> Usage:
    """What all votes use at most, each with its second call."""
    settings = judge.settings
    num_calls = settings.votes * CALLS_PER_VOTE
    num_prompt = expected_prompt_tokens(judge, attempts) * num_calls + settings.max_tokens * settings.votes
    num_completion = settings.max_tokens * num_calls
    return Usage(num_calls, num_prompt, num_completion, judge.model.price(num_prompt, num_completion))


def expected_prompt_tokens(judge: Judge, attempts: list[Attempt]) -> int:
    """Of one call, counted rather too high."""
    prompt = judge.prompt(attempts, "size")
    return sum(len(message["content"].encode()) for message in prompt.messages) // _BYTES_PER_TOKEN + 1


def budget_of(settings: JudgeSettings) -> Budget:
    return Budget(settings.budget, settings.token_budget)


def wanted(judge: Judge, group: JudgedGroup, reserved: Usage, num_finished: int | None = None) -> Wanted:
    """The run that is to begin: it expires when all of its calls would have been left at their deadlines."""
    seconds = reserved.num_calls * (judge.settings.timeout_seconds + GRACE_SECONDS) + START_SECONDS
    return Wanted(
        group.project_id,
        group.policy_id,
        group.id,
        group.num_finished if num_finished is None else num_finished,
        judge.model.name,
        judge.settings.votes,
        reserved,
        seconds,
    )


def _run(
    engine: Engine, judge: Judge, group: JudgedGroup, attempts: list[Attempt], run_id: UUID, call: Usage
) -> Outcome:
    """`call`: what was reserved for each."""
    usage, seed = Usage(), secrets.token_hex(16)
    votes: list[Vote] = []
    try:
        for number in range(judge.settings.votes):
            votes.append(vote(judge.model.ask, judge.prompt(attempts, f"{seed}:{number}"), call))
            usage += votes[-1].usage
            if problem := votes[-1].problem:
                return _failed(engine, group, run_id, usage, problem, is_outage=votes[-1].is_outage)
    except JudgeError as error:
        _failed(engine, group, run_id, usage, str(error), is_outage=True)
        raise
    except BaseException as error:  # Ctrl-C, too: nobody knows what this vote did cost
        usage = sum([call] * CALLS_PER_VOTE, usage)
        reason = f"it broke off ({type(error).__name__})"
        _failed(engine, group, run_id, usage, reason, is_outage=not isinstance(error, Exception))
        raise
    tallies = tallied(votes)
    unscored = [member.trajectory_id for member in group.unscored]
    scale = [attempt.trajectory_id for attempt in attempts if attempt.known is not None]
    return _finish(engine, group, run_id, usage, tallies, scores_of(tallies, seed, unscored, scale))


def _finish(
    engine: Engine,
    group: JudgedGroup,
    run_id: UUID,
    usage: Usage,
    tallies: dict[UUID, Tally],
    scores: dict[str, Any],
) -> Outcome:
    """The scores and the end of the run, in one commit, tried again for a while."""
    rewards = {id_: group.reward_of(tally.mean) for id_, tally in tallies.items()}
    for attempt in range(1, _FINISH_ATTEMPTS + 1):
        try:
            with engine.begin() as connection:
                if not transitions.finish(connection, run_id, usage, scores):
                    reason = "it took too long, and another process has the group"
                    return Outcome(group.id, None, reason, run_id, usage)
                write_events(connection, group.project, run_id, tallies, rewards)
            break
        except LedgerError as error:  # what the policy takes was declared anew meanwhile
            return _failed(engine, group, run_id, usage, f"its scores were refused: {error}")
        except (
            DBAPIError,
            psycopg.Error,
        ) as error:  # Postgres is away, or a trajectory became part of another
            logger.warning("judge_run_not_finished", run_id=str(run_id), error=type(error).__name__)
            if attempt == _FINISH_ATTEMPTS:
                raise
            sleep(2.0 ** (attempt - 2))
    counted = {"num_scored": len(rewards), "num_tokens": usage.num_tokens, "cost": usage.cost}
    logger.info("judge_run_finished", run_id=str(run_id), group_id=str(group.id), **counted)
    return Outcome(group.id, JudgeRunState.FINISHED, None, run_id, usage, rewards)


def write_events(
    connection: Connection, project: str, run_id: UUID, tallies: dict[UUID, Tally], rewards: dict[UUID, float]
) -> None:
    """One event for each trajectory that is still there; all or none. Raises RewardRefusedError."""
    present = connection.execute(_PRESENT, {"ids": list(rewards)}).scalars().all()
    posts = [
        RewardPost(
            str(trajectory_id),
            value=rewards[trajectory_id],
            comment=tallies[trajectory_id].comment,
            source=JUDGE_SOURCE,
            idempotency_id=f"judge:{run_id}:{trajectory_id}",
        )
        for trajectory_id in present
    ]
    [answer] = post_rewards(connection, [Posting(project, posts)])
    if isinstance(answer, LedgerError):
        raise answer


def _failed(
    engine: Engine, group: JudgedGroup, run_id: UUID, usage: Usage, reason: str, *, is_outage: bool = False
) -> Outcome:
    with engine.begin() as connection:
        transitions.fail(connection, run_id, usage, reason, is_outage=is_outage)
    logger.warning("judge_run_failed", run_id=str(run_id), group_id=str(group.id), reason=reason)
    return Outcome(group.id, JudgeRunState.FAILED, reason, run_id, usage, is_outage=is_outage)
