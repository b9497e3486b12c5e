"""A key carries a project, and everything that its holder sees and makes stays there."""

import pytest
from sqlalchemy import Engine, text

from ledger.keys import create_key
from ledger.policies import ensure_policy, move_live, read_policies
from ledger.vocabulary import Scope
from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually

Headers = dict[str, str]


@pytest.fixture
def acme(engine: Engine) -> Headers:
    return key_of(engine, "acme")


@pytest.fixture
def other(engine: Engine) -> Headers:
    return key_of(engine, "other")


def key_of(engine: Engine, project: str) -> Headers:
    with engine.begin() as connection:
        return {"authorization": f"Bearer {create_key(connection, [Scope.ADMIN], project=project)[0]}"}


def post(proxy: RunningProxy, caller: Headers, target: str) -> str:
    answer = proxy.client.post(f"/v1/trajectories/{target}/reward", json={"reward": 1}, headers=caller)
    assert answer.status_code == 200
    return str(answer.json()["status"])


def make_live(engine: Engine, project: str, version: int) -> None:
    with engine.begin() as connection:
        [policy] = [policy for policy in read_policies(connection) if policy.project == project]
        move_live(connection, policy.id, version)


def test_another_projects_ids_behave_as_unknown(acme: Headers, other: Headers, proxy: RunningProxy) -> None:
    """B130: a reward needs a key of the same tenant; early is what an unknown id is."""
    reply = proxy.chat(headers={**acme, "x-trajectory-id": "run"})
    [row] = proxy.exchanges()
    for target in (reply.json()["id"], str(row.trajectory_id), str(row.id), "run"):
        assert post(proxy, other, target) == "early"
        assert proxy.client.get(f"/v1/trajectories/{target}", headers=other).status_code == 404
    for target in (reply.json()["id"], "run"):
        assert post(proxy, acme, target) == "recorded"
    counted = proxy.rows("SELECT project, source, is_counted FROM v1.rewards WHERE trajectory_id IS NOT NULL")
    assert {(event.project, event.source) for event in counted} == {("acme", "user")}
    assert proxy.client.get("/v1/trajectories", headers=other).json()["data"] == []


def test_a_name_or_an_id_of_another_project_begins_a_trajectory_of_ones_own(
    acme: Headers, other: Headers, proxy: RunningProxy
) -> None:
    proxy.chat(headers={**acme, "x-trajectory-id": "run"})
    [first] = proxy.exchanges()
    for name in ("run", str(first.trajectory_id)):
        assert proxy.chat(headers={**other, "x-trajectory-id": name}).status_code == 200
    rows = proxy.exchanges(3)
    assert len({row.trajectory_id for row in rows}) == 3
    assert [str(r.project) for r in proxy.rows("SELECT project FROM v1.trajectories ORDER BY id")] == [
        "acme",
        "other",
        "other",
    ]


def test_each_project_is_answered_by_its_own_versions_under_the_same_names(
    acme: Headers, other: Headers, proxy: RunningProxy, vllm: FakeVllm, engine: Engine
) -> None:
    """I2 I7: vLLM and the disk know them apart, clients need not."""
    make_live(engine, "acme", 3)
    eventually(lambda: proxy.chat(headers=acme).json()["model"] == "default@3")
    assert proxy.chat(headers=other).json()["model"] == "default@0"
    assert vllm.adapters["acme@default@3"].endswith("/adapters/acme@default@3")
    seen = {}
    for name, caller in (("acme", acme), ("other", other)):
        models = proxy.client.get("/v1/models", headers=caller).json()["data"]
        seen[name] = [model["id"] for model in models]
    assert seen == {
        "acme": ["default", "default@base", "default@3"],
        "other": ["default", "default@base", "default@0"],
    }
    assert proxy.client.get("/v1/models/default@3", headers=other).status_code == 404
    vllm.faults.refuse_loading = True
    assert proxy.chat(headers=other, model="default@3").status_code == 404
    eventually(lambda: {(r.project, r.version) for r in proxy.rows("SELECT project, version FROM v1.exchanges")}
               >= {("acme", 3), ("other", 0)})  # fmt: skip
    unlike = proxy.rows("SELECT 1 FROM exchanges WHERE untrainable_reason = 'version_mismatch'")
    assert unlike == []


def test_what_looks_like_anothers_adapter_is_any_name(
    acme: Headers, other: Headers, proxy: RunningProxy, engine: Engine, vllm: FakeVllm
) -> None:
    make_live(engine, "acme", 3)
    eventually(lambda: "acme@default@3" in vllm.adapters)
    for name in ("acme@default@3", "acme@default", "acme"):
        assert proxy.chat(headers=other, model=name).json()["model"] == "default@0"


def test_a_project_that_is_new_while_the_proxy_runs_is_answered_within_a_second(
    acme: Headers, proxy: RunningProxy, engine: Engine
) -> None:
    caller = key_of(engine, "newcomer")
    eventually(lambda: proxy.chat(headers=caller).status_code == 200, 1)
    proxy.exchanges()
    names = proxy.rows("SELECT p.name FROM exchanges AS e JOIN projects AS p ON p.id = e.project_id")
    assert [name for (name,) in names] == ["newcomer"]


def test_a_project_on_another_base_waits_for_its_own_server_and_holds_up_nobody(
    start_proxy: StartProxy, engine: Engine, acme: Headers, other: Headers
) -> None:
    """I8: its name is never answered by this base."""
    with engine.begin() as connection:
        ensure_policy(connection, name="default", base_model="other-base", project="acme")
    proxy = start_proxy()
    for model in ("default", "gpt-4o"):
        refused = proxy.chat(headers=acme, model=model)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
    assert proxy.chat(headers=other).status_code == 200


def test_a_group_id_that_two_projects_use_makes_two_groups(
    acme: Headers, other: Headers, proxy: RunningProxy
) -> None:
    for caller in (acme, other):
        proxy.chat(headers={**caller, "x-group-id": "task"})
    proxy.exchanges(2)
    with proxy.engine.connect() as connection:
        groups = connection.execute(text("SELECT project, key FROM v1.groups ORDER BY project")).all()
    assert [tuple(group) for group in groups] == [("acme", "task"), ("other", "task")]
