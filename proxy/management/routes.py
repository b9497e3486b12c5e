"""Every route but the data plane: models, rewards, reading, operating. Plain FastAPI, in OpenAI's envelope."""

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.exceptions import HTTPException

from ledger import reading
from ledger.erasure.subject import Subject
from ledger.errors import RewardRefusedError
from ledger.explanation.facts import read_explanation
from ledger.identifiers import parse_id
from ledger.vocabulary import ErasureSubject, Scope
from proxy.access.caller import Caller
from proxy.body import read_headers
from proxy.errors import (
    AuthenticationError,
    MethodRefusedError,
    NotFoundError,
    ProxyError,
    UnknownRouteError,
    UnprocessableError,
)
from proxy.management.bounded import in_transaction
from proxy.management.comparison_routes import add_comparisons
from proxy.management.erasing import erased
from proxy.management.models import list_models, read_model
from proxy.management.nudge import Nudge
from proxy.management.planning import json_answer as _json
from proxy.management.readiness import what_is_missing, what_is_paused
from proxy.management.reward_routes import RewardRoutes, refused_reward
from proxy.management.reward_writer import RewardWriter
from proxy.management.scopes import Administering, Inferring
from proxy.management.training import TrainRoutes
from proxy.parts import Parts

Limit = Annotated[int, Query(ge=1, le=1000)]


def create_management(parts: Parts, engine: AsyncEngine, writer: RewardWriter, nudge: Nudge) -> FastAPI:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    _add_error_handlers(app)
    _add_models(app, parts)
    # before erasing: DELETE …/reward takes back, and erases nothing
    RewardRoutes(parts, writer, nudge).add_to(app)
    add_comparisons(app, parts, engine, nudge)
    _add_reading(app, engine)
    TrainRoutes(parts, engine, nudge).add_to(app)
    _add_erasing(app, parts, engine)
    _add_operating(app, parts, engine)
    return app


def _add_models(app: FastAPI, parts: Parts) -> None:
    @app.get("/v1/models")
    async def models(caller: Inferring) -> dict[str, Any]:
        return list_models(parts.live, parts.replicas, caller.project)

    @app.get("/v1/models/{model_id:path}")
    async def model(caller: Inferring, model_id: str) -> dict[str, Any]:
        return read_model(parts.live, parts.replicas, caller.project, model_id)


def _add_reading(app: FastAPI, engine: AsyncEngine) -> None:
    async def read(caller: Caller, question: Callable[..., Any], *arguments: Any) -> Any:
        return await in_transaction(engine, question, caller.project, *arguments)

    @app.get("/v1/trajectories")
    async def trajectories(caller: Administering, limit: Limit = 20, after: str | None = None) -> Response:
        if after is not None and parse_id(after) is None:
            raise UnprocessableError("'after' must be the last id of the page before.", param="after")
        return _list(await read(caller, reading.list_trajectories, limit, after))

    async def read_one(caller: Caller, question: Callable[..., Any], trajectory_id: str) -> Response:
        found = await read(caller, question, trajectory_id)
        if found is None:
            num_early = await read(caller, reading.count_early, trajectory_id)
            raise NotFoundError(
                f"There is no trajectory '{trajectory_id}' (yet): its row appears within a second of the reply, and never "
                f"where X-Slipstream-Capture: off was sent. Judgements that wait for it: {num_early}."
            )
        return _json(found)

    @app.get("/v1/trajectories/{trajectory_id:path}/explain")
    async def explain(caller: Administering, trajectory_id: str) -> Response:
        return await read_one(caller, read_explanation, trajectory_id)

    @app.get("/v1/trajectories/{trajectory_id:path}")
    async def trajectory(caller: Administering, trajectory_id: str) -> Response:
        return await read_one(caller, reading.read_trajectory, trajectory_id)

    @app.get("/v1/steps")
    async def steps(caller: Administering, limit: Limit = 20) -> Response:
        return _list(await read(caller, reading.list_steps, limit))

    @app.get("/v1/versions")
    async def versions(caller: Administering) -> Response:
        return _list(await read(caller, reading.list_versions))


def _add_erasing(app: FastAPI, parts: Parts, engine: AsyncEngine) -> None:
    async def erase(caller: Caller, subject: ErasureSubject, name: str) -> Response:
        return _json(await erased(engine, parts.settings.spool, caller, Subject(subject, name)))

    @app.delete("/v1/users/{user:path}")
    async def user(caller: Administering, user: str) -> Response:
        return await erase(caller, ErasureSubject.USER, user)

    @app.delete("/v1/trajectories/{trajectory_id:path}")
    async def trajectory(caller: Administering, trajectory_id: str) -> Response:
        return await erase(caller, ErasureSubject.TRAJECTORY, trajectory_id)


def _list(rows: list[dict[str, Any]]) -> Response:
    return _json({"object": "list", "data": rows})


def _add_operating(app: FastAPI, parts: Parts, engine: AsyncEngine) -> None:
    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/ready")
    async def ready(request: Request) -> JSONResponse:
        """Its status is for whoever asks; addresses and names of policies are for an administrator."""
        faults = await what_is_missing(parts, engine)
        is_told = _is_administrator(request)
        missing = [fault.told if is_told else fault.plain for fault in faults]
        body: dict[str, Any] = {"status": "not ready" if faults else "ready", "missing": missing}
        if is_told:
            body["replicas"] = {replica.url: replica.state for replica in parts.replicas.all}
            body["live"] = {t.policy.line: t.version for t in parts.live.targets()}
            body["paused"] = await what_is_paused(engine)
        return JSONResponse(body, 503 if faults else 200)

    def _is_administrator(request: Request) -> bool:
        with suppress(AuthenticationError):
            caller = parts.keys.authenticate(read_headers(request.scope["headers"], parts.settings))
            return caller.may(Scope.ADMIN)
        return False

    @app.get("/metrics")
    async def metrics(_: Administering) -> Response:
        return Response(generate_latest(parts.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _add_error_handlers(app: FastAPI) -> None:
    def add(kind: type[Exception], translate: Callable[[Request, Any], ProxyError]) -> None:
        async def answer(request: Request, error: Exception) -> JSONResponse:
            translated = translate(request, error)
            headers = {name.decode(): value.decode() for name, value in translated.headers}
            return JSONResponse(translated.envelope, translated.status, headers)

        app.add_exception_handler(kind, answer)

    add(ProxyError, lambda _, error: error)
    add(RewardRefusedError, lambda _, error: refused_reward(error))
    add(RequestValidationError, _invalid_parameter)
    add(HTTPException, _unknown_route)  # Starlette's: what its router raises
    add(Exception, lambda *_: ProxyError("The proxy failed; the request was fine."))  # and it is logged


def _invalid_parameter(_: Request, error: RequestValidationError) -> ProxyError:
    first = error.errors()[0]
    name = str(first["loc"][-1])
    return UnprocessableError(f"'{name}': {first['msg']}.", param=name)


def _unknown_route(request: Request, error: HTTPException) -> ProxyError:
    return unknown_route(
        request.method, request.scope["asked_path"], error.status_code, dict(error.headers or {})
    )


def unknown_route(
    method: str, path: str, status: int = 404, headers: dict[str, str] | None = None
) -> ProxyError:
    if status == 405:  # noqa: PLR2004 - HTTP
        allow = (headers or {}).get("Allow", "POST")
        return MethodRefusedError(f"{path} does not answer {method}, only {allow}.", allow=allow)
    return UnknownRouteError(
        f"There is no route {method} {path}. Slipstream serves POST /v1/chat/completions, GET /v1/models and "
        "the routes in docs/http.md."
    )
