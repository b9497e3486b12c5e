"""What each scope of a key opens, and what needs no key."""

from typing import Any

from sqlalchemy import Engine

from ledger.keys import new_key
from ledger.vocabulary import Scope
from proxy.process import running_parts
from tests.proxy.callers import bearer, make
from tests.proxy.refusals import error_of
from tests.proxy.running import RunningProxy, eventually, settings_for

MESSAGES = [{"role": "user", "content": "Hi"}]
SCOPES = {
    ("GET", "/v1/models"): {Scope.INFER},
    ("POST", "/v1/chat/completions"): {Scope.INFER},
    ("POST", "/v1/trajectories/x/reward"): {Scope.REWARD},
    ("GET", "/v1/trajectories"): set(),
    ("GET", "/v1/trajectories/x"): set(),
    ("GET", "/v1/trajectories/x/explain"): set(),
    ("GET", "/v1/steps"): set(),
    ("GET", "/v1/versions"): set(),
    ("GET", "/metrics"): set(),
}
BODIES = {"/v1/chat/completions": {"messages": MESSAGES}, "/v1/trajectories/x/reward": {"reward": 1}}


def test_each_scope_opens_its_routes_and_admin_all(closed: RunningProxy, engine: Engine) -> None:
    """B130: a reward needs the scope; who may judge may not read what others said."""
    keys = {scope: make(engine, scope) for scope in Scope}
    eventually(lambda: closed.client.get("/v1/nothing", headers=bearer(keys[Scope.ADMIN])).status_code == 404)
    for (method, path), opened_by in SCOPES.items():
        for scope, key in keys.items():
            answer = closed.client.request(method, path, headers=bearer(key), json=BODIES.get(path))
            if scope is Scope.ADMIN or scope in opened_by:
                assert answer.status_code in {200, 404}, (path, scope)
            else:
                assert (answer.status_code, error_of(answer)["code"]) == (403, "missing_scope"), (path, scope)
                needed = opened_by.copy().pop() if opened_by else Scope.ADMIN
                assert f"--scope {needed}" in error_of(answer)["message"]


async def test_every_route_says_which_scope_it_needs(database_url: str, tmp_path: Any) -> None:
    """A route that somebody adds without one fails here."""
    async with running_parts(settings_for(database_url, "http://127.0.0.1:1", tmp_path)) as (_, management):
        routes = {route.path: route for route in management.routes if hasattr(route, "dependant")}
        unguarded = {
            path
            for path, route in routes.items()
            if not any("caller_with" in str(d.call) for d in route.dependant.dependencies)
        }
    assert unguarded == {"/health", "/ready"}


def test_health_and_readiness_need_no_key_and_tell_strangers_nothing(
    closed: RunningProxy, admin_key: str
) -> None:
    assert closed.client.get("/health").status_code == 200
    stranger, administrator = (closed.client.get("/ready", headers=h) for h in ({}, bearer(admin_key)))
    assert stranger.json() == {"status": "ready", "missing": []}
    assert administrator.json()["live"] == {"default": 0}
    assert closed.client.get("/ready", headers=bearer(new_key())).json() == stranger.json()


def test_options_need_no_key_and_tell_methods_alone(closed: RunningProxy, admin_key: str) -> None:
    assert closed.client.options("/v1/models").headers["allow"] == "GET, HEAD, OPTIONS"
    refused = closed.client.options(f"/v1/{admin_key}")
    assert (refused.status_code, admin_key in refused.text) == (401, False)
