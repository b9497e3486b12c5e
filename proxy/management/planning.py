"""A nudge to the worker, and the plan that a worker computes (docs/decisions/0019).

Invariant: bounded in time, and the question is taken back when nobody waits for its answer any more.
"""

import asyncio
import json
from time import monotonic
from typing import Any
from uuid import UUID

from fastapi.responses import Response
from sqlalchemy.ext.asyncio import AsyncEngine

from ledger.plans import ask_plan, take_answer, withdraw_plan
from proxy.errors import NoWorkerError, ServerError
from proxy.management.bounded import in_transaction
from proxy.management.nudge import Nudge

LOOK_SECONDS = 0.1
RETRY_SECONDS = 10
_NUDGED = "A worker was nudged: it looks for groups that are ready. GET /v1/steps shows what it found."
_NOT_NUDGED = (
    "The broker did not take the nudge; a worker looks by itself when it has heard none for a while."
)


def json_answer(body: dict[str, Any], status: int = 200) -> Response:
    """Escaped to ASCII: text of callers may hold lone surrogates, which UTF-8 cannot."""
    return Response(json.dumps(body), status, media_type="application/json")


async def nudged(nudge: Nudge) -> dict[str, Any]:
    is_nudged = await nudge.sent()
    return {"object": "train", "is_nudged": is_nudged, "message": _NUDGED if is_nudged else _NOT_NUDGED}


async def planned(engine: AsyncEngine, project: str, seconds: float) -> dict[str, Any]:
    """What a worker answers. Raises NoWorkerError when none does in time, ServerError where it could not."""
    plan_id = await in_transaction(engine, ask_plan, project)
    try:
        plan = await _answer(engine, plan_id, seconds)
    except BaseException:
        await asyncio.shield(in_transaction(engine, withdraw_plan, plan_id))
        raise
    if plan["object"] == "error":
        raise ServerError(plan["message"])
    return plan


async def _answer(engine: AsyncEngine, plan_id: UUID, seconds: float) -> dict[str, Any]:
    deadline = monotonic() + seconds
    while monotonic() < deadline:
        await asyncio.sleep(LOOK_SECONDS)
        answer = await in_transaction(engine, take_answer, plan_id)
        if answer is not None:
            return answer
    raise NoWorkerError(retry_after=RETRY_SECONDS)
