"""`slipstream judge --scorer`: the members that nobody scored, through the operator's own scorer.

Its rewards are those of a program (source `scorer`): a judge's score does not count beside them. No run is recorded, for
nothing is spent; asked again, an equal reward changes nothing.
"""

from uuid import UUID

from sqlalchemy import Engine

from ledger.errors import LedgerError
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import SCORER_SOURCE, GroupState, JudgeRunState
from trainer.judge.errors import ScorerAnswerError, ScorerUnreachableError
from trainer.judge.group import Member, read_group
from trainer.judge.run import Outcome
from trainer.judge.scorer import Scored, score
from trainer.judge.settings import JudgeSettings


def score_group(engine: Engine, settings: JudgeSettings, group_id: UUID) -> Outcome:
    """Each reward is committed by itself: what was scored stays, whatever comes of the others."""
    with engine.begin() as connection:
        group = read_group(connection, group_id)
    if group is None or group.state != GroupState.OPEN:
        return Outcome(group_id, None, f"it is {group.state}" if group else "there is no such group")
    if not group.scale.is_counted:
        return Outcome(group_id, None, f"policy {group.policy} declares the metric reward with weight 0")
    rewards: dict[UUID, float] = {}
    problem = None
    for member in group.unscored:
        try:
            said = _score(settings, member, group.scale.smallest, group.scale.largest)
        except ScorerAnswerError as error:
            problem = str(error)
            continue
        except ScorerUnreachableError as error:
            problem = str(error)
            break
        try:
            _post(engine, group.project, member, said)
        except LedgerError as error:  # what the policy takes was declared anew meanwhile
            problem = str(error)
            continue
        rewards[member.trajectory_id] = said.reward
    state = JudgeRunState.FAILED if problem else JudgeRunState.FINISHED
    return Outcome(group_id, state, problem, rewards=rewards)


def _post(engine: Engine, project: str, member: Member, said: Scored) -> None:
    """Raises LedgerError."""
    post = RewardPost(
        str(member.trajectory_id), value=said.reward, comment=said.comment, source=SCORER_SOURCE
    )
    with engine.begin() as connection:
        post_reward(connection, project, post)


def _score(settings: JudgeSettings, member: Member, smallest: float, largest: float) -> Scored:
    *messages, answer = member.messages
    return score(
        settings,
        messages=messages,
        answer=answer,
        trajectory_id=member.trajectory_id,
        metadata=member.metadata,
        smallest=smallest,
        largest=largest,
    )
