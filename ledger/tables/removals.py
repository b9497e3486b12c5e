"""What retention removed, counted: a row that is gone on purpose can be told from one that was lost (I10)."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
)

from ledger.tables.metadata import created_at, metadata

removals = Table(
    "removals",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7 of the removal."),
    Column(
        "month",
        Date,
        nullable=False,
        comment="First day of the month (UTC) that the removed rows' ids lie in.",
    ),
    Column(
        "table_name",
        Text,
        nullable=False,
        comment="Which of exchanges, trajectories, trajectory_names, groups, reward_events, comparisons, judge_runs, sibling_runs, "
        "route_baselines.",
    ),
    Column("project_id", Uuid, nullable=False, comment="Whose rows they were."),
    Column("policy_id", Uuid, comment="The policy whose retention was over; NULL = the rows named none."),
    Column("num_rows", BigInteger, nullable=False, comment="How many rows went, over all runs."),
    Column(
        "removed_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=func.now(),
        comment="When the last of them went.",
    ),
    created_at(),
    UniqueConstraint("month", "table_name", "project_id", "policy_id", postgresql_nulls_not_distinct=True),
    CheckConstraint("num_rows >= 1", name="num_rows_positive"),
    comment="What retention removed: so a row that is gone can be told from one that was lost.",
)
