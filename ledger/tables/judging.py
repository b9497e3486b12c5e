"""What a judge model was asked: one run per group, with its cost. Its scores are reward events of source `judge`."""

from sqlalchemy import (
    BigInteger,
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
    Column("num_calls", Integer, comment="Calls made, re-judging included."),
    Column("num_prompt_tokens", BigInteger, comment="As the provider counted."),
    Column("num_completion_tokens", BigInteger, comment="As the provider counted."),
    Column("cost", Double, comment="US dollars, by LiteLLM's price list; NULL = it knows no price."),
    Column("scores", JSONB, comment="Votes by trajectory id, and which trajectories were unscored."),
    Column("reason", Text, comment="Why it failed or was refused, in one sentence."),
    Column("finished_at", DateTime(timezone=True), comment="When it ended."),
    created_at(),
    one_of("state", JudgeRunState),
    CheckConstraint("num_votes >= 1", name="num_votes_positive"),
    Index("ix_judge_runs_group_id", "group_id"),
    Index("ix_judge_runs_created_at", "created_at"),
    comment="Groups that a judge model was asked to score, and what that cost.",
)
