"""A sibling's score: the operator's scorer is asked, and what it says becomes one reward event, however often."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlalchemy import Connection, text

from ledger.errors import LedgerError
from ledger.policies import Policy
from ledger.rewards.metrics import reward_scale
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.siblings import runs as sibling_runs
from ledger.siblings.originals import Original
from ledger.siblings.runs import SiblingRun
from ledger.text import from_storable
from ledger.vocabulary import SCORER_SOURCE
from trainer.judge.errors import JudgeError
from trainer.judge.scorer import score
from trainer.siblings.errors import SiblingError
from trainer.siblings.request import shown_messages

if TYPE_CHECKING:
    from trainer.siblings.siblings import Siblings

_ANSWER = text("SELECT response FROM exchanges WHERE id = :id AND erased_at IS NULL")


class ScoringError(SiblingError):
    """The scorer did not answer as it should."""


def counting_policies(connection: Connection, policies: Sequence[Policy]) -> list[Policy]:
    """Those for which a score of a sibling counts."""
    return [one for one in policies if reward_scale(connection, one.project, one.name).is_counted]


def score_sibling(
    siblings: "Siblings", policy: Policy, run: SiblingRun, original: Original, sibling_id: UUID
) -> None:
    """Raises ScoringError, and LeaseLostError for a run that is another's by now."""
    with siblings.engine.connect() as connection:
        answer = _answer(connection, sibling_id)
        scale = reward_scale(connection, policy.project, policy.name)
    if answer is None:  # erased meanwhile
        return
    once = siblings.judge.model_copy(update={"scorer_attempts": 1})
    try:
        scored = score(
            once,
            messages=shown_messages(original),
            answer=answer,
            trajectory_id=sibling_id,
            metadata={"is_shadow": True, "sibling_of": str(run.trajectory_id)},
            smallest=scale.smallest,
            largest=scale.largest,
        )
    except JudgeError as error:
        raise ScoringError(str(error)) from error
    post = RewardPost(
        str(sibling_id),
        value=scored.reward,
        comment=scored.comment,
        source=SCORER_SOURCE,
        idempotency_id=f"sibling:{sibling_id}",
    )
    try:
        with siblings.engine.begin() as connection:
            post_reward(connection, policy.project, post)
            sibling_runs.settle(connection, run, siblings.owner, 0)
    except LedgerError as error:  # what the policy takes was declared anew meanwhile
        raise ScoringError(str(error)) from error


def _answer(connection: Connection, sibling_id: UUID) -> dict[str, Any] | None:
    response = connection.scalar(_ANSWER, {"id": sibling_id})
    return None if response is None else from_storable(response)
