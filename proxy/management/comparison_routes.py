"""Comparisons: posted and taken back, both halves in one transaction, and answered after its commit (I5)."""

from dataclasses import replace
from typing import Any

from fastapi import FastAPI, Request
from sqlalchemy.ext.asyncio import AsyncEngine

from ledger.rewards.comparison_ids import retract_named
from ledger.rewards.comparisons import Comparison, ComparisonResult, post_comparison
from proxy.body import read_body, read_headers
from proxy.errors import NotFoundError
from proxy.management.bounded import in_transaction
from proxy.management.nudge import Nudge
from proxy.management.reward_request import parse_comparison
from proxy.management.reward_routes import follow_up, said
from proxy.management.scopes import Judging
from proxy.parts import Parts


def add_comparisons(app: FastAPI, parts: Parts, engine: AsyncEngine, nudge: Nudge) -> None:
    def told(result: ComparisonResult) -> dict[str, Any]:
        follow_up(parts, nudge, [half for half in (result.preferred, result.other) if half])
        return {
            "object": "comparison",
            "id": str(result.comparison_id),
            "status": result.status,
            "group_id": result.group_id and str(result.group_id),
            "preferred": result.preferred and said(result.preferred),
            "other": result.other and said(result.other),
        }

    @app.post("/v1/comparisons")
    async def comparison(caller: Judging, request: Request) -> dict[str, Any]:
        headers = read_headers(request.scope["headers"], parts.settings)
        asked = parse_comparison(await read_body(request.receive, headers, parts.settings))
        whose = Comparison(
            replace(asked.preferred, key_id=caller.key_id), replace(asked.other, key_id=caller.key_id)
        )
        return told(await in_transaction(engine, post_comparison, caller.project, whose))

    @app.delete("/v1/comparisons/{comparison_id:path}")
    async def retraction(caller: Judging, comparison_id: str) -> dict[str, Any]:
        result = await in_transaction(engine, retract_named, caller.project, comparison_id, caller.key_id)
        if result is None:
            raise NotFoundError(f"There is no comparison '{comparison_id}' in this project.")
        return told(result)
