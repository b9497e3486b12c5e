"""When LiteLLM is started, for which names, and when not."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from pydantic import ValidationError

from proxy.external.providers import PROVIDERS
from proxy.settings import ProxySettings
from tests.fakes.providers import FakeProvider
from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import ROOT, RunningProxy, eventually, settings_for


def children() -> list[psutil.Process]:
    return [c for c in psutil.Process().children() if "proxy.external.child" in " ".join(c.cmdline())]


def test_nothing_of_litellm_is_there_before_the_first_external_call() -> None:
    code = (
        "import sys, proxy.app, proxy.server, proxy.external.dispatch; "
        "sys.exit(any(name.split('.')[0] in ('litellm', 'openai') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def is_dead(child: psutil.Process) -> bool:
    """All of it: while another of its threads still ends, nobody can wait for it yet, and its sockets are open."""
    return not child.is_running() or (child.status() == psutil.STATUS_ZOMBIE and child.num_threads() <= 1)


def test_calls_that_come_together_start_one_child_and_one_that_died_is_replaced(
    own_external_proxy: RunningProxy,
) -> None:
    assert children() == []
    with ThreadPoolExecutor(4) as threads:
        replies = list(threads.map(lambda _: own_external_proxy.chat(model="openai/gpt-4o"), range(4)))
    assert {reply.status_code for reply in replies} == {200}
    (child,) = children()
    assert "DATABASE_URL" not in child.environ()
    child.kill()
    eventually(lambda: is_dead(child))
    assert own_external_proxy.chat(model="openai/gpt-4o").status_code == 200


def test_a_child_that_dies_while_it_starts_is_a_503_and_leaves_nothing_behind(
    own_external_proxy: RunningProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.external.process.sys.executable", "/bin/echo")
    reply = own_external_proxy.chat(model="openai/gpt-4o")
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "10")
    assert [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE] == []


def test_other_calls_are_answered_while_litellm_is_imported(own_external_proxy: RunningProxy) -> None:
    with ThreadPoolExecutor(1) as threads:
        external = threads.submit(own_external_proxy.chat, model="openai/gpt-4o")
        eventually(children)
        began = time.monotonic()
        own_external_proxy.chat()
        assert not external.done()
        assert time.monotonic() - began < 2
        assert external.result().status_code == 200


def test_without_the_setting_a_providers_name_goes_to_the_default_policy(
    proxy: RunningProxy, provider: FakeProvider
) -> None:
    reply = proxy.chat(model="openai/gpt-4o")
    assert reply.json()["model"] == "default@0"
    assert provider.seen == []


def test_names_of_a_policy_and_of_its_base_stay_theirs(start_proxy: StartProxy, vllm: FakeVllm) -> None:
    vllm.base_model = "openai/gpt-oss-20b"
    proxy = start_proxy(
        base_model="openai/gpt-oss-20b", policy="anthropic/mine", external_providers="openai,anthropic"
    )
    for name in ("openai/gpt-oss-20b", "anthropic/mine", "anthropic/mine@base", "Qwen/Qwen3-0.6B", "gpt-4o"):
        assert proxy.chat(model=name).json()["model"] == "anthropic/mine@0"


def test_the_names_of_providers_are_those_of_the_pinned_litellm() -> None:
    code = "import litellm; print(*{str(getattr(name, 'value', name)) for name in litellm.provider_list})"
    environment = {"LITELLM_OFFLINE_MODE": "true", "LITELLM_MODE": "PRODUCTION"}
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True
    )
    assert set(told.stdout.split()) == PROVIDERS


@pytest.mark.parametrize(
    "values",
    [
        {"external_providers": "opnai"},
        {"external_base_urls": "openai"},
        {"external_base_urls": "opnai=http://x"},
    ],
)
def test_a_setting_that_means_nothing_stops_the_start(tmp_path: Path, values: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        settings_for("postgresql://x", "http://127.0.0.1:1", tmp_path, **values)


def test_settings_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://x")
    monkeypatch.setenv("SLIPSTREAM_UPSTREAM_URLS", "http://127.0.0.1:1")
    monkeypatch.setenv("SLIPSTREAM_BASE_MODEL", "model")
    monkeypatch.setenv("SLIPSTREAM_EXTERNAL_PROVIDERS", " openai, anthropic,")
    monkeypatch.setenv("SLIPSTREAM_EXTERNAL_BASE_URLS", "openai=https://gateway/v1?a=b")
    settings = ProxySettings.from_environment()
    assert settings.provider_names == {"openai", "anthropic"}
    assert settings.provider_urls == {"openai": "https://gateway/v1?a=b"}
