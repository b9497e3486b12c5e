"""Several policies behind one proxy: a client asks for one by its name and gets that one's versions."""

import pytest
from sqlalchemy import Engine

from ledger.keys import create_key
from ledger.policies import move_live, read_policies
from ledger.vocabulary import Scope
from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import eventually

TABLES = {
    "support": {"step_groups": 4},
    "sql": {"base_model": "other-base", "upstream_urls": "http://127.0.0.1:1"},
}


def test_a_policy_of_the_settings_file_answers_under_its_own_name(
    start_proxy: StartProxy, vllm: FakeVllm, engine: Engine
) -> None:
    proxy = start_proxy(policies=TABLES)
    assert proxy.chat(model="support").json()["model"] == "support@0"
    assert proxy.chat(model="gpt-4o").json()["model"] == "default@0"
    with engine.begin() as connection:
        [support] = [policy for policy in read_policies(connection) if policy.name == "support"]
        move_live(connection, support.id, 2)
    eventually(lambda: proxy.chat(model="support").json()["model"] == "support@2")
    assert proxy.chat(model="default").json()["model"] == "default@0"
    assert list(vllm.adapters) == ["support@2"]
    assert {row.policy for row in proxy.rows("SELECT policy FROM v1.trajectories")} <= {"support", "default"}


def test_a_policy_on_another_base_is_another_proxys_and_the_caller_is_told(start_proxy: StartProxy) -> None:
    """I8: its name is never answered by the default policy, whichever of the two proxies starts first."""
    answer = start_proxy(policies=TABLES).chat(model="sql")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert "'sql' learns on another base model" in error["message"]
    assert "send this call to the proxy of that base model" in error["message"]


def test_every_project_has_the_policies_of_the_file(start_proxy: StartProxy, engine: Engine) -> None:
    proxy = start_proxy(policies=TABLES)
    with engine.begin() as connection:
        key = create_key(connection, [Scope.ADMIN], project="acme")[0]
    caller = {"authorization": f"Bearer {key}"}
    names = ("default", "support", "sql")
    expected = {(project, name) for project in ("default", "acme") for name in names}
    eventually(lambda: registered(engine) == expected)
    eventually(lambda: proxy.chat(headers=caller, model="support").json().get("model") == "support@0")
    proxy.exchanges()
    assert [str(row.project) for row in proxy.rows("SELECT project FROM v1.trajectories")][-1:] == ["acme"]


def registered(engine: Engine) -> set[tuple[str, str]]:
    with engine.connect() as connection:
        return {(policy.project, policy.name) for policy in read_policies(connection)}


@pytest.mark.parametrize("model", ["support@base", "support@1"])
def test_a_version_of_a_policy_is_pinned_under_its_name(start_proxy: StartProxy, model: str) -> None:
    proxy = start_proxy(policies=TABLES)
    expected = model.replace("base", "0")
    assert proxy.chat(model=model).json()["model"] == expected
