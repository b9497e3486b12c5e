"""What the proxy can be told by its environment. docs/settings.md lists each variable with its default."""

import logging
from enum import StrEnum
from pathlib import Path

from pydantic import Field, SecretStr, field_validator

from ledger.policy_tables import PolicyTables, bases
from ledger.settings import EnvironmentSettings
from proxy.external.providers import PROVIDERS


class OnSpoolFailure(StrEnum):
    REFUSE = "refuse"  # 429: nothing is served that is not recorded
    SERVE = "serve"  # x-captured: false, counted


class ProxySettings(EnvironmentSettings):
    database_url: SecretStr = Field(validation_alias="DATABASE_URL")
    redis_url: SecretStr | None = Field(default=None, validation_alias="REDIS_URL")
    upstream_urls: str = Field(validation_alias="SLIPSTREAM_UPSTREAM_URLS")
    base_model: str = Field(validation_alias="SLIPSTREAM_BASE_MODEL")
    policy: str = Field(default="default", validation_alias="SLIPSTREAM_POLICY")
    policies: PolicyTables = Field(default_factory=dict, validation_alias="SLIPSTREAM_POLICIES")
    adapters: Path = Field(default=Path(".slipstream/adapters"), validation_alias="SLIPSTREAM_ADAPTERS")
    spool: Path = Field(default=Path(".slipstream/spool"), validation_alias="SLIPSTREAM_SPOOL")
    host: str = Field(default="127.0.0.1", validation_alias="SLIPSTREAM_HOST")
    port: int = Field(default=4000, ge=0, le=65535, validation_alias="SLIPSTREAM_PORT")
    external_providers: str = Field(
        default="", validation_alias="SLIPSTREAM_EXTERNAL_PROVIDERS"
    )  # off: no call goes to strangers unless the operator says to whom
    external_base_urls: str = Field(default="", validation_alias="SLIPSTREAM_EXTERNAL_BASE_URLS")
    num_workers: int = Field(default=1, ge=1, validation_alias="SLIPSTREAM_WORKERS")
    is_open_allowed: bool = Field(default=False, validation_alias="SLIPSTREAM_ALLOW_OPEN")
    log_level: str = Field(default="INFO", validation_alias="SLIPSTREAM_LOG_LEVEL")

    cors_origins: str = Field(default="", validation_alias="SLIPSTREAM_CORS_ORIGINS")  # comma-separated, or *
    on_spool_failure: OnSpoolFailure = Field(
        default=OnSpoolFailure.REFUSE, validation_alias="SLIPSTREAM_ON_SPOOL_FAILURE"
    )
    max_body_bytes: int = Field(default=16 << 20, ge=1, validation_alias="SLIPSTREAM_MAX_BODY_BYTES")
    max_open_bytes: int = Field(default=256 << 20, ge=1, validation_alias="SLIPSTREAM_MAX_OPEN_BYTES")
    max_header_bytes: int = Field(default=64 << 10, ge=1, validation_alias="SLIPSTREAM_MAX_HEADER_BYTES")
    max_concurrent_per_key: int = Field(
        default=4096, ge=1, validation_alias="SLIPSTREAM_MAX_CONCURRENT_PER_KEY"
    )
    max_waiting_rewards: int = Field(default=5000, ge=1, validation_alias="SLIPSTREAM_MAX_WAITING_REWARDS")
    max_choices: int = Field(default=64, ge=1, le=65536, validation_alias="SLIPSTREAM_MAX_CHOICES")
    max_logprobs: int = Field(default=20, ge=0, validation_alias="SLIPSTREAM_MAX_LOGPROBS")
    max_tokens: int = Field(default=131_072, ge=1, validation_alias="SLIPSTREAM_MAX_TOKENS")
    max_stops: int = Field(default=64, ge=1, validation_alias="SLIPSTREAM_MAX_STOPS")
    max_tool_bytes: int = Field(default=1 << 20, ge=1, validation_alias="SLIPSTREAM_MAX_TOOL_BYTES")
    allows_media: bool = Field(default=False, validation_alias="SLIPSTREAM_ALLOWS_MEDIA")
    header_seconds: float = Field(default=30, gt=0, validation_alias="SLIPSTREAM_HEADER_SECONDS")
    body_seconds: float = Field(default=60, gt=0, validation_alias="SLIPSTREAM_BODY_SECONDS")
    keep_alive_seconds: int = Field(default=75, ge=1, validation_alias="SLIPSTREAM_KEEP_ALIVE_SECONDS")
    shutdown_seconds: int = Field(default=30, ge=1, validation_alias="SLIPSTREAM_SHUTDOWN_SECONDS")
    database_wait_seconds: float = Field(
        default=30, ge=0, validation_alias="SLIPSTREAM_DATABASE_WAIT_SECONDS"
    )

    plan_seconds: float = Field(default=10, gt=0, validation_alias="SLIPSTREAM_PLAN_SECONDS")
    upstream_wait_seconds: float = Field(
        default=30, ge=0, validation_alias="SLIPSTREAM_UPSTREAM_WAIT_SECONDS"
    )
    upstream_connect_seconds: float = Field(
        default=5, gt=0, validation_alias="SLIPSTREAM_UPSTREAM_CONNECT_SECONDS"
    )
    upstream_first_token_seconds: float = Field(
        default=660, gt=0, validation_alias="SLIPSTREAM_UPSTREAM_FIRST_TOKEN_SECONDS"
    )
    upstream_idle_seconds: float = Field(
        default=660, gt=0, validation_alias="SLIPSTREAM_UPSTREAM_IDLE_SECONDS"
    )
    upstream_keep_alive_seconds: float = Field(
        default=4, ge=0, validation_alias="SLIPSTREAM_UPSTREAM_KEEP_ALIVE_SECONDS"
    )  # vLLM as its makers ship it closes idle connections after 5 s: ours must be the side that closes first
    affinity_slack: int = Field(default=4, ge=0, validation_alias="SLIPSTREAM_AFFINITY_SLACK")
    affinity_factor: float = Field(default=1.5, ge=1, validation_alias="SLIPSTREAM_AFFINITY_FACTOR")
    max_reply_bytes: int = Field(default=64 << 20, ge=1, validation_alias="SLIPSTREAM_MAX_REPLY_BYTES")
    call_seconds: float = Field(default=3600, gt=0, validation_alias="SLIPSTREAM_CALL_SECONDS")
    send_seconds: float = Field(default=300, gt=0, validation_alias="SLIPSTREAM_SEND_SECONDS")
    watch_seconds: float = Field(default=1, gt=0, validation_alias="SLIPSTREAM_WATCH_SECONDS")
    adopt_seconds: float = Field(default=60, gt=0, validation_alias="SLIPSTREAM_ADOPT_SECONDS")
    conversation_seconds: int = Field(
        default=86_400, ge=1, validation_alias="SLIPSTREAM_CONVERSATION_SECONDS"
    )
    max_remembered_turns: int = Field(
        default=50_000, ge=1, validation_alias="SLIPSTREAM_MAX_REMEMBERED_TURNS"
    )
    valkey_wait_seconds: float = Field(default=0.05, gt=0, validation_alias="SLIPSTREAM_VALKEY_WAIT_SECONDS")
    default_temperature: float = Field(
        default=1.0, ge=0, validation_alias="SLIPSTREAM_DEFAULT_TEMPERATURE"
    )  # what vLLM samples with when a request names none
    explore_share: float = Field(default=0, ge=0, le=1, validation_alias="SLIPSTREAM_EXPLORE_SHARE")
    explore_temperature: float = Field(
        default=0.7, ge=0.01, le=2, validation_alias="SLIPSTREAM_EXPLORE_TEMPERATURE"
    )  # vLLM raises what is between 0 and 0.01

    @field_validator("upstream_urls")
    @classmethod
    def _has_urls(cls, value: str) -> str:
        urls = [url.strip() for url in value.split(",") if url.strip()]
        if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
            raise ValueError("name at least one vLLM base, such as http://127.0.0.1:8000")
        return value

    @field_validator("external_providers")
    @classmethod
    def _are_providers(cls, value: str) -> str:
        if unknown := set(_listed(value)) - PROVIDERS:
            raise ValueError(
                f"LiteLLM knows no provider {', '.join(sorted(unknown))}: name some, such as openai,anthropic"
            )
        return value

    @field_validator("external_base_urls")
    @classmethod
    def _are_base_urls(cls, value: str) -> str:
        pairs = [pair.partition("=") for pair in _listed(value)]
        if not all(name in PROVIDERS and url.startswith(("http://", "https://")) for name, _, url in pairs):
            raise ValueError("write PROVIDER=URL, such as openai=https://gateway.internal/v1")
        return value

    @field_validator("log_level")
    @classmethod
    def _is_level(cls, value: str) -> str:
        if value.upper() not in logging.getLevelNamesMapping():
            raise ValueError("say DEBUG, INFO, WARNING or ERROR")
        return value

    @property
    def replica_urls(self) -> list[str]:
        """The vLLM bases, without a trailing slash or /v1."""
        urls = (url.strip().rstrip("/").removesuffix("/v1") for url in self.upstream_urls.split(","))
        return list(dict.fromkeys(url for url in urls if url))

    @property
    def policy_bases(self) -> dict[str, str]:
        """The policies of each project, the default one first, with their base models: not all are served here."""
        return bases(self.policy, self.base_model, self.policies)

    @property
    def provider_names(self) -> frozenset[str]:
        """The external providers that may be asked."""
        return frozenset(_listed(self.external_providers))

    @property
    def provider_urls(self) -> dict[str, str]:
        """Where some of them are asked instead of at their own address."""
        return {
            name: url for name, _, url in (pair.partition("=") for pair in _listed(self.external_base_urls))
        }


def _listed(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]
