"""From the oldest request that waits to what its step begins with; what cannot be done is refused.

Invariant: no request stops a policy. One whose kind fails is refused, with what it wrote rolled back.
"""

from collections.abc import Sequence
from uuid import UUID

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import InterfaceError, OperationalError

from ledger.policies import Policy
from ledger.step_requests import StepRequest, next_request, refuse_request
from trainer.beginning import Asked, Beginning, Refusal
from trainer.kinds import KINDS
from trainer.settings import TrainerSettings

logger = structlog.get_logger()
_TOO_SLOW = "57014"  # SQLSTATE: the statement's time was over, as it will be again


def requested(
    connection: Connection,
    policy: Policy,
    settings: TrainerSettings,
    among: Sequence[UUID],
    *,
    is_paused: bool,
) -> tuple[StepRequest, Beginning] | None:
    """The oldest that can be done, locked; those before it are refused. Paused: only what says `even_if_paused`."""
    while (request := next_request(connection, policy.id, is_paused=is_paused)) is not None:
        answer = _answer(Asked(connection, policy, settings, request, among))
        if isinstance(answer, Beginning):
            return request, answer
        refuse_request(connection, request.id, answer.reason)
        logger.info("step_refused", policy=policy.line, request_id=str(request.id), reason=answer.reason)
    return None


def _answer(asked: Asked) -> Beginning | Refusal:
    kind = asked.request.kind
    if kind not in KINDS:
        return Refusal(f"This worker makes no steps of kind {kind}: start one of a newer version.")
    try:
        with asked.connection.begin_nested():
            return KINDS[kind](asked)
    except Exception as error:
        if _is_passing(error):
            raise
        logger.exception("step_request_failed", request_id=str(asked.request.id))
        return Refusal(f"The worker could not begin it ({type(error).__name__}): its log says more.")


def _is_passing(error: Exception) -> bool:
    """Postgres is away, or others stand in the way: the request waits for the next tick."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    return error.connection_invalidated or getattr(error.orig, "sqlstate", None) != _TOO_SLOW
