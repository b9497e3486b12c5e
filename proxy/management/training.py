"""/v1/train: a nudge, a plan, a step by hand and what became of it, pause and resume. For administrators.

Invariant: a 202 on a step means that its request is committed; the nudge after it is only a hint (I6).
"""

from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from fastapi import FastAPI, Request
from fastapi.responses import Response
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from ledger.errors import LedgerError, StepArgumentError
from ledger.identifiers import parse_id
from ledger.pauses import find_learners, pause, resume
from ledger.reading import plain
from ledger.step_arguments import check_arguments
from ledger.step_requests import ask_step, find_request, withdraw_request
from ledger.vocabulary import StepKind
from proxy.access.caller import Caller
from proxy.body import read_body, read_headers
from proxy.errors import ConflictError, InvalidRequestError, NotFoundError, UnprocessableError
from proxy.management.bounded import in_transaction
from proxy.management.nudge import Nudge
from proxy.management.planning import json_answer, nudged, planned
from proxy.management.reward_fields import check_names, json_of
from proxy.management.scopes import Administering
from proxy.parts import Parts

_ASKED = "A worker begins the step when no other one of this policy runs. GET /v1/train/{id} shows what became of it."
_KINDS = ", ".join(StepKind)


@dataclass(frozen=True, slots=True)
class Wish:
    """What POST /v1/train asks for: a plan, a step of this kind, or (kind None) that a worker looks."""

    is_plan: bool
    kind: StepKind | None = None
    policy: str | None = None
    arguments: dict[str, Any] | None = None


class TrainRoutes:
    def __init__(self, parts: Parts, engine: AsyncEngine, nudge: Nudge) -> None:
        self._parts = parts
        self._engine = engine
        self._nudge = nudge

    def add_to(self, app: FastAPI) -> None:
        @app.post("/v1/train")
        async def train(caller: Administering, request: Request) -> Response:
            wish = wish_of(await self._body(request))
            if wish.is_plan:
                return json_answer(
                    await planned(self._engine, caller.project, self._parts.settings.plan_seconds)
                )
            if wish.kind is None:
                return json_answer(await nudged(self._nudge), 202)
            return json_answer(await self._ask(caller, wish), 202)

        @app.post("/v1/train/pause")
        async def stop(caller: Administering, request: Request) -> Response:
            return await self._change(caller, await self._body(request), is_pause=True)

        @app.post("/v1/train/resume")
        async def go_on(caller: Administering, request: Request) -> Response:
            answer = await self._change(caller, await self._body(request), is_pause=False)
            self._nudge.send()
            return answer

        @app.get("/v1/train/{request_id}")
        async def one(caller: Administering, request_id: str) -> Response:
            return json_answer(await self._read(caller, _known(request_id)))

        @app.delete("/v1/train/{request_id}")
        async def withdraw(caller: Administering, request_id: str) -> Response:
            known = _known(request_id)
            is_withdrawn = await in_transaction(self._engine, withdraw_request, caller.project, known)
            found = await self._read(caller, known)
            if not is_withdrawn:
                raise ConflictError(f"It does not wait any more: it is {found['state']}.")
            return json_answer(found)

    async def _body(self, request: Request) -> dict[str, Any]:
        headers = read_headers(request.scope["headers"], self._parts.settings)
        raw = await read_body(request.receive, headers, self._parts.settings)
        body = json_of(raw) if raw.strip() else {}
        if not isinstance(body, dict):
            raise InvalidRequestError('The body must be a JSON object such as {"dry_run": true}.')
        return body

    async def _ask(self, caller: Caller, wish: Wish) -> dict[str, Any]:
        policy = wish.policy or self._parts.settings.policy
        answer = await in_transaction(self._engine, _asked, caller.project, policy, wish)
        return answer | {"is_nudged": await self._nudge.sent(), "message": _ASKED}

    async def _read(self, caller: Caller, request_id: UUID) -> dict[str, Any]:
        found = await in_transaction(self._engine, find_request, caller.project, request_id)
        if found is None:
            raise _unknown(str(request_id))
        return {"object": "train.request", **found}

    async def _change(self, caller: Caller, body: dict[str, Any], *, is_pause: bool) -> Response:
        check_names(body, ("policy", "reason") if is_pause else ("policy",))
        policy, reason = _text(body, "policy"), _text(body, "reason")
        change = _paused if is_pause else _resumed
        return json_answer(await in_transaction(self._engine, change, caller.project, policy, reason))


def wish_of(body: dict[str, Any]) -> Wish:
    """Raises UnprocessableError, which names the field."""
    check_names(body, ("dry_run", "kind", "policy", "arguments"))
    if not isinstance(body.get("dry_run", False), bool):
        raise UnprocessableError("'dry_run' must be true or false.", param="dry_run")
    others = [name for name in ("kind", "policy", "arguments") if name in body]
    if body.get("dry_run") and others:
        raise UnprocessableError("A dry run is of every policy: leave the other fields out.", param=others[0])
    if body.get("dry_run") or not others:
        return Wish(is_plan=bool(body.get("dry_run", False)))
    if body.get("kind") not in list(StepKind):
        raise UnprocessableError(f"'kind' must say what to learn from: {_KINDS}.", param="kind")
    return Wish(False, StepKind(body["kind"]), _text(body, "policy"), _arguments(body))


def _arguments(body: dict[str, Any]) -> dict[str, Any]:
    arguments = body.get("arguments", {})
    if not isinstance(arguments, dict):
        raise UnprocessableError("'arguments' must be a JSON object.", param="arguments")
    try:
        check_arguments(StepKind(body["kind"]), arguments)
    except StepArgumentError as error:
        raise UnprocessableError(str(error), param=f"arguments.{error.param}") from error
    return arguments


def _text(body: dict[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is None or (isinstance(value, str) and value.isprintable() and value):
        return value
    raise UnprocessableError(f"'{name}' must be one line of text.", param=name)


def _asked(connection: Connection, project: str, policy: str, wish: Wish) -> dict[str, Any]:
    [learner] = _learners(connection, project, policy)
    request_id = ask_step(connection, learner.id, wish.kind or StepKind.GRPO, wish.arguments or {})
    return {"object": "train.request", **(find_request(connection, project, request_id) or {})}


def _paused(connection: Connection, project: str, policy: str | None, reason: str | None) -> dict[str, Any]:
    try:
        pause(connection, [learner.id for learner in _learners(connection, project, policy)], reason)
    except LedgerError as error:
        raise UnprocessableError(f"'reason': {error}.", param="reason") from error
    return _told(connection, project, policy)


def _resumed(connection: Connection, project: str, policy: str | None, _: str | None) -> dict[str, Any]:
    resume(connection, [learner.id for learner in _learners(connection, project, policy)])
    return _told(connection, project, policy)


def _told(connection: Connection, project: str, policy: str | None) -> dict[str, Any]:
    found = [asdict(learner) for learner in _learners(connection, project, policy)]
    return {"object": "list", "data": [plain(learner) for learner in found]}


def _learners(connection: Connection, project: str, policy: str | None) -> list[Any]:
    try:
        return find_learners(connection, project, policy)
    except LedgerError as error:
        raise NotFoundError(f"{str(error).capitalize()}.", param="policy") from error


def _known(request_id: str) -> UUID:
    parsed = parse_id(request_id)
    if parsed is None:
        raise _unknown(request_id)
    return parsed


def _unknown(request_id: str) -> NotFoundError:
    return NotFoundError(f"No step was asked for with the id '{request_id[:100]}' in this project.")
