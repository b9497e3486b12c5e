"""Settings of `slipstream up` and of the commands that talk to a running stack.

What the proxy and the trainer read is theirs; the stack hands its own environment on to them.
"""

from pathlib import Path

from pydantic import Field, SecretStr

from ledger.policy_tables import PolicyTables
from ledger.settings import EnvironmentSettings


class StackSettings(EnvironmentSettings):
    """The embedded stack. A server whose address is given is used instead of started."""

    home: Path = Field(
        default=Path(".slipstream"),
        validation_alias="SLIPSTREAM_HOME",
        description="Where the embedded stack keeps its state.",
    )
    host: str = Field(
        default="127.0.0.1", validation_alias="SLIPSTREAM_HOST", description="Address the proxy listens on."
    )
    port: int = Field(
        default=4000,
        ge=0,
        le=65535,
        validation_alias="SLIPSTREAM_PORT",
        description="Port the proxy listens on.",
    )
    database_url: SecretStr | None = Field(
        default=None,
        validation_alias="DATABASE_URL",
        description="A PostgreSQL to use instead of the embedded one.",
    )
    redis_url: SecretStr | None = Field(
        default=None,
        validation_alias="REDIS_URL",
        description="A Valkey or Redis to use instead of the embedded one.",
    )
    bootstrap_key: SecretStr | None = Field(
        default=None,
        validation_alias="SLIPSTREAM_BOOTSTRAP_KEY",
        description="A key with every scope that `slipstream migrate` makes in the default project.",
    )
    rewards_database_url: SecretStr | None = Field(
        default=None,
        validation_alias="SLIPSTREAM_REWARDS_DATABASE_URL",
        description="Where `slipstream reward --from-sql` reads; unset, the ledger.",
    )
    upstream_urls: str | None = Field(
        default=None,
        validation_alias="SLIPSTREAM_UPSTREAM_URLS",
        description="Base addresses of vLLM servers to use instead of the embedded one, separated by commas.",
    )
    base_model: str | None = Field(
        default=None,
        validation_alias="SLIPSTREAM_BASE_MODEL",
        description="A model directory or hub name; `--model` wins over it.",
    )
    policy: str = Field(
        default="default", validation_alias="SLIPSTREAM_POLICY", description="Name of the default policy."
    )
    policies: PolicyTables = Field(default_factory=dict, validation_alias="SLIPSTREAM_POLICIES")
    lora_rank: int = Field(
        default=8,
        validation_alias="SLIPSTREAM_LORA_RANK",
        description="Rank of the adapters, which the embedded vLLM must allow.",
    )
    start_seconds: float = Field(
        default=120,
        gt=0,
        validation_alias="SLIPSTREAM_START_SECONDS",
        description="How long a child other than vLLM may take until it is ready.",
    )
    vllm_start_seconds: float = Field(
        default=900,
        gt=0,
        validation_alias="SLIPSTREAM_VLLM_START_SECONDS",
        description="How long the embedded vLLM may take until it serves.",
    )
    vllm_max_model_len: int | None = Field(
        default=None,
        ge=128,
        validation_alias="SLIPSTREAM_VLLM_MAX_MODEL_LEN",
        description="Longest prompt plus answer, in tokens. Unset: 4096 or what the model allows, if that is less.",
    )
    vllm_kv_cache_gib: int = Field(
        default=1,
        ge=1,
        validation_alias="SLIPSTREAM_VLLM_KV_CACHE_GIB",
        description="KV cache of the embedded vLLM on a CPU, in GiB.",
    )
    vllm_threads: int | None = Field(
        default=None,
        ge=1,
        validation_alias="SLIPSTREAM_VLLM_THREADS",
        description="Cores of the embedded vLLM on a CPU. Unset: all that this process may use.",
    )
    vllm_arguments: str = Field(
        default="",
        validation_alias="SLIPSTREAM_VLLM_ARGUMENTS",
        description="More arguments for the embedded vLLM, as on a command line.",
    )
    keep_versions: int = Field(
        default=4,
        ge=1,
        validation_alias="SLIPSTREAM_KEEP_VERSIONS",
        description="Adapters that the embedded vLLM holds at once, besides one being loaded.",
    )
    min_free_gib: float = Field(
        default=3.0,
        ge=0,
        validation_alias="SLIPSTREAM_MIN_FREE_GIB",
        description="Free disk space below which the stack does not start.",
    )
    tick_max_age_seconds: float = Field(
        default=60,
        gt=0,
        validation_alias="SLIPSTREAM_TICK_MAX_AGE_SECONDS",
        description="How old the last tick may be before `doctor` calls the trainer unhealthy.",
    )
