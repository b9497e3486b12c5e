"""What passed through: groups of trajectories of exchanges, and the names callers gave to trajectories."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from ledger.tables.metadata import created_at, metadata, one_of
from ledger.vocabulary import GroupKind, GroupState, IdentifiedBy, Reason

groups = Table(
    "groups",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7 of the group."),
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False, comment="The tenant."),
    Column("policy_id", Uuid, ForeignKey("policies.id"), nullable=False, comment="The policy that answered."),
    Column(
        "kind",
        Text,
        nullable=False,
        comment="explicit (caller's id), choices (n of one call), prompt (same first prompt) or comparison.",
    ),
    Column(
        "key",
        Text,
        nullable=False,
        comment="The caller's id, the call's id, or prompt hash : window : versions.",
    ),
    Column(
        "sequence",
        Integer,
        nullable=False,
        server_default=text("0"),
        comment="Counts groups of one key: a prompt group that was claimed is continued by the next.",
    ),
    Column("size", Integer, comment="How many trajectories it will have, where that was declared."),
    Column(
        "state",
        Text,
        nullable=False,
        server_default=text("'open'"),
        comment="open, claimed, trained or skipped.",
    ),
    Column("step_id", Uuid, comment="The step that claimed, trained or skipped it."),
    Column("reason", Text, comment="Why it was skipped."),
    Column(
        "last_member_at",
        DateTime(timezone=True),
        nullable=False,
        comment="When its newest member was recorded (Postgres' clock).",
    ),
    created_at(),
    Column(
        "route",
        Text,
        comment="The route of its first member: what its members have in common beside the task.",
    ),
    Column(
        "reward_mean",
        Double,
        comment="Mean reward of its members when it was trained: the baseline of late ones.",
    ),
    Column("num_scored", Integer, comment="How many rewards that mean is of."),
    UniqueConstraint("project_id", "policy_id", "kind", "key", "sequence"),
    one_of("kind", GroupKind),
    one_of("state", GroupState),
    one_of("reason", Reason),
    CheckConstraint("size IS NULL OR size >= 1", name="size_positive"),
    Index("ix_groups_open", "policy_id", "created_at", postgresql_where=text("state = 'open'")),
    Index("ix_groups_step_id", "step_id", postgresql_where=text("step_id IS NOT NULL")),
    comment="Trajectories that attempted the same task; the reward baseline is computed inside a group.",
)

trajectories = Table(
    "trajectories",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7; its time is the partition key."),
    Column("project_id", Uuid, nullable=False, comment="The tenant."),
    Column("policy_id", Uuid, nullable=False, comment="The policy that answered."),
    Column("group_id", Uuid, comment="The group, where it has one."),
    Column("external_id", Text, comment="The caller's own id for it, if the caller gave one."),
    Column("identified_by", Text, nullable=False, comment="path, header, metadata, conversation or new."),
    Column(
        "choice_index",
        Integer,
        nullable=False,
        server_default=text("0"),
        comment="Which choice of an n > 1 call it began as.",
    ),
    Column("metadata", JSONB, comment="The caller's metadata of its first call."),
    Column("end_user", Text, comment="The request's `user` (or safety identifier), for erasure."),
    Column("erased_at", DateTime(timezone=True), comment="When it was erased; NULL = it was not."),
    created_at(),
    Column(
        "route",
        Text,
        comment="Its route: a digest of endpoint, template of its first prompt and tools, or of the name that the caller gave.",
    ),
    Column(
        "is_shadow",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="Whether the worker sampled it as a sibling of another: no user ever saw it.",
    ),
    one_of("identified_by", IdentifiedBy),
    Index("ix_trajectories_group_id", "group_id"),
    Index("ix_trajectories_external_id", "project_id", "external_id"),
    Index(
        "ix_trajectories_end_user",
        "project_id",
        text('"left"(end_user, 256)'),
        postgresql_where=text("end_user IS NOT NULL"),
    ),
    postgresql_partition_by="RANGE (id)",
    comment="One attempt at one task: a conversation or an agent run.",
)

trajectory_names = Table(
    "trajectory_names",
    metadata,
    Column(
        "project_id", Uuid, ForeignKey("projects.id"), nullable=False, comment="The tenant whose name it is."
    ),
    Column("name", Text, nullable=False, comment="The caller's own trajectory id."),
    Column(
        "trajectory_id",
        Uuid,
        nullable=False,
        comment="The trajectory that the first call with this name began.",
    ),
    created_at(),
    PrimaryKeyConstraint("project_id", "name"),
    Index("ix_trajectory_names_trajectory_id", "trajectory_id"),
    comment="Callers' ids, unique per tenant across all partitions.",
)
