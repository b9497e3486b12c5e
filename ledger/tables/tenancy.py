"""Who calls (projects, api_keys) and what learns (policies, policy_versions)."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from ledger.tables.metadata import created_at, metadata, one_of
from ledger.vocabulary import Combination, Direction, VersionState

projects = Table(
    "projects",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7 of the project."),
    Column("name", Text, nullable=False, unique=True, comment="Its name; `default` exists from the start."),
    created_at(),
    Column(
        "retention_days",
        Integer,
        comment="A month is removed so many days after its end; NULL = never.",
    ),
    CheckConstraint("retention_days >= 1", name="retention_days_positive"),
    comment="Tenants. Every trajectory, reward and key belongs to one.",
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7 of the key."),
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False, comment="The project it acts for."),
    Column(
        "prefix",
        Text,
        nullable=False,
        comment="First characters, to recognise it by. Never enough to use it.",
    ),
    Column("key_hash", LargeBinary, nullable=False, unique=True, comment="SHA-256 of the whole key."),
    Column("scopes", ARRAY(Text), nullable=False, comment="Any of infer, reward, admin."),
    Column("revoked_at", DateTime(timezone=True), comment="When it stopped working; NULL = works."),
    Column("name", Text, comment="What its owner calls it."),
    created_at(),
    comment="Keys of the data plane, hashed.",
)

policies = Table(
    "policies",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7 of the policy."),
    Column(
        "project_id", Uuid, ForeignKey("projects.id"), nullable=False, comment="The project that owns it."
    ),
    Column("name", Text, nullable=False, comment="What a client may say as `model`."),
    Column("base_model", Text, nullable=False, comment="The name or path of the base model in vLLM."),
    Column(
        "live_version",
        Integer,
        nullable=False,
        server_default=text("0"),
        comment="The version that new trajectories get. Moves only to a version that every replica confirmed.",
    ),
    Column(
        "reward_min", Double, nullable=False, server_default=text("-1"), comment="Smallest reward accepted."
    ),
    Column(
        "reward_max", Double, nullable=False, server_default=text("1"), comment="Largest reward accepted."
    ),
    created_at(),
    Column(
        "retention_days",
        Integer,
        comment="The same for this policy alone; NULL = as its project says, 2147483647 = never.",
    ),
    Column(
        "combination",
        Text,
        nullable=False,
        server_default=text("'mean'"),
        comment="How the judgements that count make one reward: mean (weighted), sum, min or last.",
    ),
    Column("paused_at", DateTime(timezone=True), comment="Since when it begins no step; NULL = it learns."),
    Column("paused_reason", Text, comment="Why it does not, in one sentence."),
    UniqueConstraint("project_id", "name"),
    one_of("combination", Combination),
    CheckConstraint("retention_days >= 1", name="retention_days_positive"),
    CheckConstraint("live_version >= 0", name="live_version_not_negative"),
    CheckConstraint("reward_min < reward_max", name="reward_range_not_empty"),
    CheckConstraint("reward_min >= -1e100 AND reward_max <= 1e100", name="reward_range_bounded"),
    comment="Named learners: one base model and a line of versions.",
)

metrics = Table(
    "metrics",
    metadata,
    Column("policy_id", Uuid, ForeignKey("policies.id"), nullable=False, comment="The policy."),
    Column("name", Text, nullable=False, comment="The metric's name, as rewards say it."),
    Column("smallest", Double, nullable=False, comment="Smallest value accepted."),
    Column("largest", Double, nullable=False, comment="Largest value accepted."),
    Column(
        "direction",
        Text,
        nullable=False,
        server_default=text("'higher'"),
        comment="Which values are good: higher or lower.",
    ),
    Column(
        "weight",
        Double,
        nullable=False,
        server_default=text("1"),
        comment="Its weight in the reward; 0 = it does not count.",
    ),
    created_at(),
    PrimaryKeyConstraint("policy_id", "name"),
    one_of("direction", Direction),
    CheckConstraint("smallest < largest AND smallest >= -1e100 AND largest <= 1e100", name="range_not_empty"),
    CheckConstraint("weight = 0 OR (weight >= 1e-6 AND weight <= 1e6)", name="weight_not_negative"),
    comment="Metrics that count in a policy's rewards, besides `reward` and `comparison`.",
)

policy_versions = Table(
    "policy_versions",
    metadata,
    Column("policy_id", Uuid, ForeignKey("policies.id"), nullable=False, comment="The policy."),
    Column("version", Integer, nullable=False, comment="0 = the base model; only grows."),
    Column("parent_version", Integer, comment="The version it was trained from; NULL for the base."),
    Column("state", Text, nullable=False, comment="base, saved, published, retired or failed."),
    Column(
        "adapter_path",
        Text,
        comment="Its directory below the adapters' root; NULL for the base. Never reused.",
    ),
    Column("adapter_sha256", Text, comment="Hex digest of adapter_model.safetensors."),
    Column("published_at", DateTime(timezone=True), comment="When it first became live."),
    created_at(),
    Column(
        "lora_rank", Integer, comment="The adapter's rank; NULL for the base, and before it was recorded."
    ),
    Column("lora_alpha", Double, comment="The adapter's alpha; likewise."),
    PrimaryKeyConstraint("policy_id", "version"),
    one_of("state", VersionState),
    comment="The line of versions of each policy. An adapter never changes once it has a name.",
)
