"""What a judge model was asked: one run per group, with its cost. Its scores are reward events of source `judge`."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from ledger.tables.metadata import created_at, metadata, one_of
from ledger.vocabulary import JudgeRunState

judge_runs = Table(
    "judge_runs",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7 of the run."),
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False, comment="The tenant."),
    Column(
        "policy_id", Uuid, ForeignKey("policies.id"), nullable=False, comment="The policy whose group it is."
    ),
    Column("group_id", Uuid, nullable=False, comment="The group that was judged."),
    Column("model", Text, nullable=False, comment="The judge, as LiteLLM names it."),
    Column("state", Text, nullable=False, comment="running, finished, failed or refused."),
    Column("num_votes", Integer, nullable=False, comment="How often it was asked to score the group."),
    Column(
        "num_calls", Integer, comment="Calls made, re-judging included; while it runs, the most it may make."
    ),
    Column(
        "num_prompt_tokens",
        BigInteger,
        comment="As the provider counted; while it runs, what it has reserved.",
    ),
    Column("num_completion_tokens", BigInteger, comment="Likewise."),
    Column(
        "cost", Double, comment="Likewise, in US dollars by LiteLLM's price list; NULL = it knows no price."
    ),
    Column(
        "scores",
        JSONB,
        comment="Votes, mean and spread (0 to 1) by trajectory id, the seed, who was unscored, who was shown as a scale.",
    ),
    Column("reason", Text, comment="Why it failed or was refused, in one sentence."),
    Column(
        "is_outage",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="It failed since nobody answered: no failure of the group's.",
    ),
    Column(
        "expires_at",
        DateTime(timezone=True),
        nullable=False,
        comment="Until when it has its group for itself: a running one that is over belongs to a dead process.",
    ),
    Column("finished_at", DateTime(timezone=True), comment="When it ended."),
    created_at(),
    one_of("state", JudgeRunState),
    CheckConstraint("num_votes >= 1", name="num_votes_positive"),
    Index("ix_judge_runs_group_id", "group_id", "created_at"),
    Index("uq_judge_runs_running", "group_id", unique=True, postgresql_where=text("state = 'running'")),
    Index("ix_judge_runs_created_at", "created_at"),
    comment="Groups that a judge model was asked to score, and what that cost.",
)
