"""The routes that judge. Every post goes through the one writer, and is answered after its commit (I5)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fastapi import FastAPI, Request

from ledger.errors import LedgerError, RewardRefusedError
from ledger.identifiers import new_id
from ledger.rewards.posts import Posting, RewardPost, RewardResult
from proxy.access.caller import Caller
from proxy.body import read_body, read_headers
from proxy.errors import ConflictError, ProxyError, UnprocessableError
from proxy.management.feedback_request import parse_feedback
from proxy.management.nudge import Nudge
from proxy.management.reward_request import parse_retraction, parse_reward, parse_rewards
from proxy.management.reward_writer import BrokenPostError, RewardWriter, Told
from proxy.management.scopes import Judging
from proxy.parts import Parts


class RewardRoutes:
    """What the routes share: the writer, and what follows from what it wrote."""

    def __init__(self, parts: Parts, writer: RewardWriter, nudge: Nudge) -> None:
        self._parts = parts
        self._writer = writer
        self._nudge = nudge

    def add_to(self, app: FastAPI) -> None:
        @app.post("/v1/trajectories/{target:path}/reward")
        async def reward(caller: Judging, target: str, request: Request) -> dict[str, Any]:
            post = parse_reward(target, await self._body(request))
            return self._told(await self._writer.post(_posting(caller, post)))[0]

        @app.delete("/v1/trajectories/{target:path}/reward")
        async def retraction(caller: Judging, target: str, request: Request) -> dict[str, Any]:
            """What its source said last stands no more. What it said stays in the history."""
            post = parse_retraction(target, request.query_params, await self._body(request))
            return self._told(await self._writer.post(_posting(caller, post)))[0]

        @app.post("/v1/feedback")  # and /feedback: a missing /v1 is served
        async def feedback(caller: Judging, request: Request) -> dict[str, Any]:
            """TensorZero's. Of a dry run the body is checked, and nothing is asked or written."""
            asked = parse_feedback(await self._body(request))
            if asked.is_dry_run:
                return {"feedback_id": str(new_id())}
            [answer] = self._told(await self._writer.post(_posting(caller, asked.post)))
            return {"feedback_id": answer["id"]}

        @app.post("/v1/rewards")
        async def rewards(caller: Judging, request: Request) -> dict[str, Any]:
            """Item by item, in their order: a refused one stops no other."""
            return {
                "object": "list",
                "data": await self._each(caller, parse_rewards(await self._body(request))),
            }

    async def _body(self, request: Request) -> bytes:
        settings = self._parts.settings
        return await read_body(request.receive, read_headers(request.scope["headers"], settings), settings)

    async def _each(
        self, caller: Caller, items: Sequence[RewardPost | UnprocessableError]
    ) -> list[dict[str, Any]]:
        postings = [_posting(caller, item) for item in items if isinstance(item, RewardPost)]
        answers = iter(await self._writer.post_each(postings))
        return [
            _refused_item(item) if isinstance(item, ProxyError) else self._item(next(answers))
            for item in items
        ]

    def _item(self, answer: Told) -> dict[str, Any]:
        if isinstance(answer, ProxyError):
            return _refused_item(answer)
        if isinstance(answer, RewardRefusedError):
            return _refused_item(refused_reward(answer))
        if isinstance(answer, BrokenPostError):
            return _refused_item(ProxyError(str(answer)))
        if isinstance(answer, LedgerError):
            raise answer
        return self._told(answer)[0]

    def _told(self, results: Sequence[RewardResult]) -> list[dict[str, Any]]:
        follow_up(self._parts, self._nudge, results)
        return [said(result) for result in results]


def follow_up(parts: Parts, nudge: Nudge, results: Sequence[RewardResult]) -> None:
    """What is written is counted, and a group that is ready is told."""
    for result in results:
        parts.metrics.rewards.labels(result.status).inc()
    if any(result.group_is_ready for result in results):
        nudge.send()


def _posting(caller: Caller, post: RewardPost) -> Posting:
    return Posting(caller.project, [replace(post, key_id=caller.key_id)])


def said(result: RewardResult) -> dict[str, Any]:
    """`reason` and `note` say why it does not count, where it does not."""
    answer: dict[str, Any] = {
        "object": "reward",
        "id": result.event_id and str(result.event_id),
        "status": result.status,
        "trajectory_id": result.trajectory_id and str(result.trajectory_id),
        "exchange_id": result.exchange_id and str(result.exchange_id),
        "counts": result.not_counted_reason is None,
    }
    if result.not_counted_reason:
        answer |= {"reason": result.not_counted_reason, "note": result.note}
    if result.taken_back:
        answer["taken_back"] = {"id": str(result.taken_back.event_id), "value": result.taken_back.value}
    return answer


def _refused_item(error: ProxyError) -> dict[str, Any]:
    return {"object": "error", "status": error.status, **error.envelope}


def refused_reward(error: RewardRefusedError) -> ProxyError:
    if error.status == ConflictError.status:
        return ConflictError(str(error))
    return UnprocessableError(str(error), param=error.param)
