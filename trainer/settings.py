"""Settings of the worker and of beat: built once at the entry point and passed down.

Invariant: each says of what part it is, so none is forgotten in `learning()`, which is stored with every step (I9).
"""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from ledger.groups.readiness import Readiness
from ledger.hours import readable_hours, readable_zone
from ledger.policy_tables import PolicyTables
from ledger.settings import EnvironmentSettings
from ledger.triggers import Triggers
from trainer.grpo.advantages import Baseline
from trainer.grpo.loss_settings import Importance, LossKind, LossSettings, Normalization
from trainer.setting_types import (
    Checkpointing,
    Count,
    Fraction,
    Names,
    Seconds,
    Urls,
    known_rank,
    of_rewards,
)


class Part(StrEnum):
    """What a setting decides. Example: max_staleness is LEARNING, since a step that goes on must leave out the same samples."""

    PLACE = "place"  # where things are
    TIMING = "timing"  # when a step starts, and with which groups
    LEARNING = "learning"  # what a step does to the weights: stored with it
    RUNNING = "running"  # how it runs: a step may end with others than it began with


def _env(part: Part, name: str, default: Any = ...) -> Any:
    return Field(default, validation_alias=name, json_schema_extra={"part": part})


_place = partial(_env, Part.PLACE)
_timing = partial(_env, Part.TIMING)
_learning = partial(_env, Part.LEARNING)
_running = partial(_env, Part.RUNNING)


class TrainerSettings(EnvironmentSettings):
    # where things are
    database_url: str = _place("DATABASE_URL")
    redis_url: str = _place("REDIS_URL")
    upstream_urls: Urls = _place("SLIPSTREAM_UPSTREAM_URLS")
    base_model: str = _place("SLIPSTREAM_BASE_MODEL")
    policy: str = _place("SLIPSTREAM_POLICY", "default")
    policies: PolicyTables = Field(
        default_factory=dict,
        validation_alias="SLIPSTREAM_POLICIES",
        json_schema_extra={"part": Part.PLACE},
    )
    trained_policies: Names = _place("SLIPSTREAM_TRAINED_POLICIES", None)
    adapters: Path = _place("SLIPSTREAM_ADAPTERS", Path(".slipstream/adapters"))
    adapters_url: str | None = _place("SLIPSTREAM_ADAPTERS_URL", None)
    checkpoints: Path | None = _place("SLIPSTREAM_CHECKPOINTS", None)
    tensorboard: Path | None = _place("SLIPSTREAM_TENSORBOARD", None)
    wandb_project: str | None = _place("SLIPSTREAM_WANDB_PROJECT", None)
    # when a step starts, and with what
    step_groups: Count = _timing("SLIPSTREAM_STEP_GROUPS", 8)
    step_max_groups: Count = _timing("SLIPSTREAM_STEP_MAX_GROUPS", 512)
    step_max_wait_seconds: Seconds = _timing("SLIPSTREAM_STEP_MAX_WAIT_SECONDS", 14_400.0)
    step_max_tokens: Count = _learning("SLIPSTREAM_STEP_MAX_TOKENS", 65_536)
    step_min_tokens: Annotated[int, Field(ge=0)] = _timing("SLIPSTREAM_STEP_MIN_TOKENS", 2_048)
    min_seconds_between_versions: Annotated[float, Field(ge=0)] = _timing(
        "SLIPSTREAM_MIN_SECONDS_BETWEEN_VERSIONS", 60.0
    )
    train_hours: Annotated[str, AfterValidator(readable_hours)] = _timing("SLIPSTREAM_TRAIN_HOURS", "")
    train_time_zone: Annotated[str, AfterValidator(readable_zone)] = _timing(
        "SLIPSTREAM_TRAIN_TIME_ZONE", "UTC"
    )
    sample_max_tokens: Count = _learning("SLIPSTREAM_SAMPLE_MAX_TOKENS", 8_192)
    row_tokens: Count = _learning("SLIPSTREAM_ROW_TOKENS", 512)
    memory_mib: Count | None = _learning("SLIPSTREAM_TRAINER_MEMORY_MIB", None)  # unset: what is free
    gradient_checkpointing: Checkpointing = _learning("SLIPSTREAM_GRADIENT_CHECKPOINTING", Checkpointing.AUTO)
    group_grace_seconds: float = _timing("SLIPSTREAM_GROUP_GRACE_SECONDS", 30.0)
    group_deadline_seconds: float = _timing("SLIPSTREAM_GROUP_DEADLINE_SECONDS", 3_600.0)
    max_staleness: Annotated[int, Field(ge=0)] = _learning("SLIPSTREAM_MAX_STALENESS", 4)
    # what a step does to the weights
    learning_rate: Annotated[float, Field(gt=0)] = _learning("SLIPSTREAM_LEARNING_RATE", 1e-3)
    warmup_steps: Annotated[int, Field(ge=0)] = _learning("SLIPSTREAM_WARMUP_STEPS", 0)
    adam_beta1: Fraction = _learning("SLIPSTREAM_ADAM_BETA1", 0.9)
    adam_beta2: Fraction = _learning("SLIPSTREAM_ADAM_BETA2", 0.999)
    weight_decay: Annotated[float, Field(ge=0)] = _learning("SLIPSTREAM_WEIGHT_DECAY", 0.0)
    grad_clip: Annotated[float, Field(gt=0)] = _learning("SLIPSTREAM_GRAD_CLIP", 1.0)
    baseline: Baseline = _learning("SLIPSTREAM_BASELINE", Baseline.BY_KIND)
    running_baseline: bool = _learning("SLIPSTREAM_RUNNING_BASELINE", True)
    baseline_min_samples: Count = _learning("SLIPSTREAM_BASELINE_MIN_SAMPLES", 4)
    baseline_window: Count = _learning("SLIPSTREAM_BASELINE_WINDOW", 256)
    scale_by_std: bool = _learning("SLIPSTREAM_SCALE_BY_STD", False)
    train_truncated: bool = _learning("SLIPSTREAM_TRAIN_TRUNCATED", True)
    train_reshaped: bool = _learning("SLIPSTREAM_TRAIN_RESHAPED", True)
    loss: Annotated[LossKind, AfterValidator(of_rewards)] = _learning("SLIPSTREAM_LOSS", LossKind.CISPO)
    importance: Importance = _learning("SLIPSTREAM_IMPORTANCE", Importance.TOKEN)
    importance_cap: Annotated[float, Field(gt=0)] | None = _learning("SLIPSTREAM_IMPORTANCE_CAP", None)
    normalize: Normalization = _learning("SLIPSTREAM_NORMALIZE", Normalization.TOKENS)
    cispo_cap: Annotated[float, Field(gt=0)] = _learning("SLIPSTREAM_CISPO_CAP", 3.0)
    clip_low: Annotated[float, Field(gt=0, lt=1)] = _learning("SLIPSTREAM_CLIP_LOW", 0.2)
    clip_high: Annotated[float, Field(gt=0)] = _learning("SLIPSTREAM_CLIP_HIGH", 0.28)
    trust_log_ratio: Annotated[float, Field(gt=0)] = _learning("SLIPSTREAM_TRUST_LOG_RATIO", 3.0)
    kl: Annotated[float, Field(ge=0)] = _learning("SLIPSTREAM_KL", 0.0)
    sft_learning_rate: Annotated[float, Field(gt=0)] = _learning("SLIPSTREAM_SFT_LEARNING_RATE", 2e-4)
    sft_epochs: Count = _learning("SLIPSTREAM_SFT_EPOCHS", 2)
    sft_batch_tokens: Count = _learning("SLIPSTREAM_SFT_BATCH_TOKENS", 4_096)
    sft_max_samples: Count = _learning("SLIPSTREAM_SFT_MAX_SAMPLES", 2_048)
    dpo_learning_rate: Annotated[float, Field(gt=0)] = _learning("SLIPSTREAM_DPO_LEARNING_RATE", 5e-5)
    dpo_epochs: Count = _learning("SLIPSTREAM_DPO_EPOCHS", 1)
    dpo_beta: Annotated[float, Field(gt=0)] = _learning("SLIPSTREAM_DPO_BETA", 0.1)
    lora_rank: Annotated[int, AfterValidator(known_rank)] = _learning("SLIPSTREAM_LORA_RANK", 8)
    lora_alpha: Annotated[float, Field(gt=0)] = _learning("SLIPSTREAM_LORA_ALPHA", 16.0)
    seed: int = _learning("SLIPSTREAM_SEED", 0)
    # how it runs
    device: Literal["auto", "cpu", "cuda"] = _running("SLIPSTREAM_TRAINER_DEVICE", "auto")
    threads: Annotated[int, Field(ge=0)] = _running("SLIPSTREAM_TRAINER_THREADS", 0)  # 0 = as torch chooses
    processes: Count = _running("SLIPSTREAM_TRAINER_PROCESSES", 1)
    shard: Literal["none", "fsdp"] = _running("SLIPSTREAM_TRAINER_SHARD", "none")
    stall_seconds: Seconds = _running("SLIPSTREAM_TRAINER_STALL_SECONDS", 1_800.0)
    loaded_models: Count = _running("SLIPSTREAM_LOADED_MODELS", 1)
    niceness: Annotated[int, Field(ge=0, le=19)] = _running("SLIPSTREAM_TRAINER_NICE", 10)
    lease_seconds: Seconds = _running("SLIPSTREAM_LEASE_SECONDS", 60.0)
    tick_seconds: Seconds = _timing("SLIPSTREAM_TICK_SECONDS", 5.0)
    silence_seconds: Seconds = _timing("SLIPSTREAM_SILENCE_SECONDS", 60.0)
    step_attempts: Count = _running("SLIPSTREAM_STEP_ATTEMPTS", 2)
    publish_attempts: Count = _running("SLIPSTREAM_PUBLISH_ATTEMPTS", 5)
    retry_seconds: Seconds = _running("SLIPSTREAM_RETRY_SECONDS", 5.0)
    replica_timeout_seconds: Seconds = _running("SLIPSTREAM_REPLICA_TIMEOUT_SECONDS", 60.0)
    probe_tolerance: Annotated[float, Field(gt=0)] | None = _running("SLIPSTREAM_PROBE_TOLERANCE", None)
    keep_versions: Count = _running("SLIPSTREAM_KEEP_VERSIONS", 4)
    keep_checkpoints: Count = _running("SLIPSTREAM_KEEP_CHECKPOINTS", 8)
    health_file: Path | None = _running("SLIPSTREAM_WORKER_HEALTH_FILE", None)
    log_level: str = _running("SLIPSTREAM_LOG_LEVEL", "INFO")

    @field_validator("step_max_groups")
    @classmethod
    def _enough(cls, step_max_groups: int, info: ValidationInfo) -> int:
        if step_max_groups < info.data.get("step_groups", 1):
            raise ValueError("a step would never have enough groups: at least SLIPSTREAM_STEP_GROUPS")
        return step_max_groups

    @field_validator("importance_cap")
    @classmethod
    def _has_no_other_cap(cls, importance_cap: float | None, info: ValidationInfo) -> float | None:
        if importance_cap is not None and info.data.get("loss") is LossKind.CISPO:
            raise ValueError("CISPO's ratio has SLIPSTREAM_CISPO_CAP: this one is for SLIPSTREAM_LOSS=ppo")
        return importance_cap

    @field_validator("shard")
    @classmethod
    def _several(cls, shard: str, info: ValidationInfo) -> str:
        if shard != "none" and info.data.get("processes") == 1:
            raise ValueError("there is nobody to share with: SLIPSTREAM_TRAINER_PROCESSES must be 2 or more")
        return shard

    @property
    def checkpoints_root(self) -> Path:
        return self.checkpoints or self.adapters.parent / "checkpoints"

    def loss_settings(self) -> LossSettings:
        return LossSettings(
            kind=self.loss,
            importance=self.importance,
            importance_cap=self.importance_cap,
            normalization=self.normalize,
            cispo_cap=self.cispo_cap,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            trust_log_ratio=self.trust_log_ratio,
            kl_weight=self.kl,
        )

    def readiness(self) -> Readiness:
        return Readiness(
            grace_seconds=self.group_grace_seconds,
            deadline_seconds=self.group_deadline_seconds,
            min_samples=self.baseline_min_samples,
            has_running=self.running_baseline,
        )

    def triggers(self) -> Triggers:
        return Triggers.of(self.model_dump())

    def with_learning(self, stored: dict[str, Any]) -> "TrainerSettings":
        """These settings with a step's own learning settings: a step ends as it began (I9)."""
        own = {name: value for name, value in stored.items() if name in LEARNING_FIELDS}
        return TrainerSettings(**(self.model_dump() | own))

    def as_planned_by(self, told: dict[str, Any]) -> "TrainerSettings":
        """These settings with what another worker told of its own (`planning`)."""
        own = {name: value for name, value in told.items() if name in LEARNING_FIELDS | TIMING_FIELDS}
        return TrainerSettings(**(self.model_dump() | own))

    def learning(self) -> dict[str, Any]:
        """What a step records of its settings."""
        return self.model_dump(mode="json", include=set(LEARNING_FIELDS))

    def planning(self) -> dict[str, Any]:
        """What decides when a step begins and what it trains: what the worker tells others of its settings."""
        return self.model_dump(mode="json", include={*LEARNING_FIELDS, *TIMING_FIELDS})


def _fields(part: Part) -> frozenset[str]:
    fields = TrainerSettings.model_fields.items()
    return frozenset(name for name, field in fields if field.json_schema_extra == {"part": part})


PLACE_FIELDS = _fields(Part.PLACE)
LEARNING_FIELDS = _fields(Part.LEARNING)
TIMING_FIELDS = _fields(Part.TIMING)
