"""Judgements, append-only. The reward of a trajectory is a view over its events (v1.rewards)."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from ledger.tables.metadata import created_at, metadata

comparisons = Table(
    "comparisons",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7 of the comparison."),
    Column(
        "project_id", Uuid, ForeignKey("projects.id"), nullable=False, comment="The tenant that posted it."
    ),
    Column(
        "preferred_event_id", Uuid, nullable=False, comment="The reward event of the better one (value 1)."
    ),
    Column("other_event_id", Uuid, nullable=False, comment="The reward event of the other one (value 0)."),
    Column("group_id", Uuid, comment="The group that both are in; NULL = they are not in one, yet."),
    created_at(),
    Index("ix_comparisons_waiting", "created_at", postgresql_where=text("group_id IS NULL")),
    comment="Which of two trajectories was better: each makes two reward events of metric comparison.",
)

reward_events = Table(
    "reward_events",
    metadata,
    Column("id", Uuid, nullable=False, comment="UUIDv7; its time is the partition key."),
    Column("project_id", Uuid, nullable=False, comment="The tenant that posted it."),
    Column(
        "target",
        Text,
        nullable=False,
        comment="The id posted, ours in one spelling (#k: choice k): a trajectory id, a reply's id, or the caller's own id.",
    ),
    Column(
        "trajectory_id",
        Uuid,
        comment="The trajectory it judges; NULL while it is early (its row is not visible yet).",
    ),
    Column("exchange_id", Uuid, comment="The exchange it judges, where the reply's id was used."),
    Column(
        "metric",
        Text,
        nullable=False,
        comment="`reward` counts towards the advantage; other names are stored.",
    ),
    Column(
        "value",
        Double,
        comment="The judgement; true is 1, false is 0. NULL for a retraction, a comment or a demonstration.",
    ),
    Column("content", JSONB, comment="The text of a comment, the messages of a demonstration."),
    Column("comment", Text, comment="A remark beside the value."),
    Column("source", Text, nullable=False, comment="Who judges, such as user, program or judge."),
    Column(
        "is_retraction",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="Takes back what this source said before for this metric.",
    ),
    Column("idempotency_id", Text, comment="The caller's id for this post."),
    Column("observed_at", DateTime(timezone=True), nullable=False, comment="When the judgement was made."),
    created_at(),
    Column("key_id", Uuid, comment="The API key that posted it; NULL = none was needed."),
    Column(
        "is_final",
        Boolean,
        nullable=False,
        server_default=text("true"),
        comment="false: more is to come, and its group waits for it until its deadline.",
    ),
    Column(
        "is_whole",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="Whether it judges the whole trajectory, though its target is a reply's id.",
    ),
    Column("comparison_id", Uuid, comment="The comparison that it is one half of."),
    PrimaryKeyConstraint("id"),
    CheckConstraint("value IS NULL OR (value > '-Infinity' AND value < 'Infinity')", name="value_finite"),
    Index("ix_reward_events_trajectory_id", "trajectory_id", "id"),
    Index("ix_reward_events_early", "project_id", "target", postgresql_where=text("trajectory_id IS NULL")),
    Index("ix_reward_events_target", "project_id", "target"),
    Index(
        "ix_reward_events_idempotency_id",
        "project_id",
        "idempotency_id",
        postgresql_where=text("idempotency_id IS NOT NULL"),
    ),
    postgresql_partition_by="RANGE (id)",
    comment="One posted judgement each; never updated except to name the trajectory of an early one.",
)
