"""Settings of judging, read by `slipstream judge` and by the worker: built once at the entry point and passed down."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from ledger.settings import EnvironmentSettings


class JudgeWhen(StrEnum):
    """What the worker judges by itself."""

    OFF = "off"
    OPEN_GROUPS = "open_groups"


def _plain_url(url: str | None) -> str | None:
    """A password in an address would be in every log that names it."""
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("say http://host:port/path")
    if "@" in parts.netloc or parts.query:
        raise ValueError("an address holds no secrets: there are variables for the keys")
    return url.rstrip("/")


Url = Annotated[str | None, AfterValidator(_plain_url)]
Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


def _env(name: str, default: Any = ...) -> Any:
    return Field(default, validation_alias=name)


class JudgeSettings(EnvironmentSettings):
    database_url: str = _env("DATABASE_URL")
    # the judge: a model that LiteLLM can ask
    when: JudgeWhen = _env("SLIPSTREAM_JUDGE", JudgeWhen.OFF)
    model: str | None = _env("SLIPSTREAM_JUDGE_MODEL", None)
    base_url: Url = _env("SLIPSTREAM_JUDGE_BASE_URL", None)
    api_key: SecretStr | None = _env("SLIPSTREAM_JUDGE_API_KEY", None)
    rubric: Path | None = _env("SLIPSTREAM_JUDGE_RUBRIC", None)
    votes: Annotated[int, Field(ge=1, le=16)] = _env("SLIPSTREAM_JUDGE_VOTES", 1)
    temperature: Annotated[float, Field(ge=0, le=2)] = _env("SLIPSTREAM_JUDGE_TEMPERATURE", 0.0)
    max_tokens: Count = _env("SLIPSTREAM_JUDGE_MAX_TOKENS", 4_096)
    max_characters: Annotated[int, Field(ge=1_000)] = _env("SLIPSTREAM_JUDGE_MAX_CHARACTERS", 60_000)
    timeout_seconds: Seconds = _env("SLIPSTREAM_JUDGE_TIMEOUT_SECONDS", 120.0)
    # how much and when
    budget: Annotated[float, Field(ge=0)] = _env("SLIPSTREAM_JUDGE_BUDGET", 5.0)
    token_budget: Annotated[int, Field(ge=0)] = _env("SLIPSTREAM_JUDGE_TOKEN_BUDGET", 2_000_000)
    groups_per_tick: Count = _env("SLIPSTREAM_JUDGE_GROUPS_PER_TICK", 4)
    tick_seconds: Seconds = _env("SLIPSTREAM_JUDGE_TICK_SECONDS", 30.0)
    wait_seconds: Annotated[float, Field(ge=0)] = _env("SLIPSTREAM_JUDGE_WAIT_SECONDS", 60.0)
    # the scorer: a service of the operator's
    scorer_url: Url = _env("SLIPSTREAM_SCORER_URL", None)
    scorer_key: SecretStr | None = _env("SLIPSTREAM_SCORER_KEY", None)
    scorer_timeout_seconds: Seconds = _env("SLIPSTREAM_SCORER_TIMEOUT_SECONDS", 30.0)
    scorer_attempts: Annotated[int, Field(ge=1, le=10)] = _env("SLIPSTREAM_SCORER_ATTEMPTS", 3)
