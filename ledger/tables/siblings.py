"""Which trajectories shadow siblings were sampled for. What was sampled stands in `trajectories` and `exchanges`, marked."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from ledger.tables.metadata import created_at, metadata, one_of
from ledger.vocabulary import SiblingReason, SiblingRunState

sibling_runs = Table(
    "sibling_runs",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7 of the run; the siblings' ids follow from it."),
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False, comment="The tenant."),
    Column("policy_id", Uuid, ForeignKey("policies.id"), nullable=False, comment="The policy."),
    Column("trajectory_id", Uuid, nullable=False, comment="The user's trajectory."),
    Column("exchange_id", Uuid, nullable=False, comment="Its one exchange."),
    Column("group_id", Uuid, nullable=False, comment="Its group, which the siblings join."),
    Column(
        "sibling_ids", ARRAY(Uuid), nullable=False, comment="The siblings' trajectories, sampled or not yet."
    ),
    Column("state", Text, nullable=False, comment="sampling, scoring, finished or dropped."),
    Column(
        "num_attempts",
        Integer,
        nullable=False,
        server_default=text("0"),
        comment="Failures in a row, in this state; a crash counts.",
    ),
    Column(
        "num_tokens",
        BigInteger,
        nullable=False,
        server_default=text("0"),
        comment="Tokens of prompts and answers; of what was lost, the most it can have been.",
    ),
    Column("reason", Text, comment="Why it was dropped."),
    Column("lease_owner", Text, comment="The worker that holds it."),
    Column("lease_expires_at", DateTime(timezone=True), comment="When another may take it over."),
    Column(
        "next_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=text("now()"),
        comment="Not to be taken before.",
    ),
    Column("finished_at", DateTime(timezone=True), comment="When it ended."),
    created_at(),
    one_of("state", SiblingRunState),
    one_of("reason", SiblingReason),
    CheckConstraint("(state = 'dropped') = (reason IS NOT NULL)", name="dropped_has_reason"),
    Index("uq_sibling_runs_trajectory_id", "trajectory_id", unique=True),
    Index("ix_sibling_runs_exchange_id", "exchange_id"),
    Index("ix_sibling_runs_waiting", "next_at", postgresql_where=text("finished_at IS NULL")),
    Index("ix_sibling_runs_created_at", "created_at"),
    comment="Trajectories that the worker samples siblings for: at most once each.",
)
