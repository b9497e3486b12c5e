"""What was learned from: steps, and the samples that went into them or were left out with a reason."""

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
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from ledger.tables.metadata import created_at, metadata, one_of
from ledger.vocabulary import ACTIVE_STEP_STATES, BaselineKind, Reason, RequestState, StepKind, StepState

_ACTIVE = ", ".join(f"'{state}'" for state in ACTIVE_STEP_STATES)

training_steps = Table(
    "training_steps",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7 of the step."),
    Column("policy_id", Uuid, ForeignKey("policies.id"), nullable=False, comment="The policy it trains."),
    Column("version", Integer, nullable=False, comment="The version it makes; step n makes version n."),
    Column("parent_version", Integer, nullable=False, comment="The version it starts from."),
    Column(
        "state", Text, nullable=False, comment="claimed, built, updated, saved, published, failed or skipped."
    ),
    Column("attempt", Integer, nullable=False, server_default=text("1"), comment="How often it was started."),
    Column(
        "fencing_token",
        BigInteger,
        nullable=False,
        server_default=text("1"),
        comment="Grows with each take-over; a writer with an older one is refused.",
    ),
    Column("lease_owner", Text, comment="The worker that holds it."),
    Column(
        "lease_expires_at",
        DateTime(timezone=True),
        comment="When another worker may take it over (Postgres' clock).",
    ),
    Column("seed", BigInteger, nullable=False, comment="Seed of everything random in the step."),
    Column("settings", JSONB, nullable=False, comment="The learning settings that the step used."),
    Column(
        "metrics",
        JSONB,
        nullable=False,
        server_default=text("'{}'"),
        comment="Loss, reward, ratio, lengths, tokens, seconds by phase.",
    ),
    Column("reason", Text, comment="Why it was skipped or failed, in one sentence."),
    Column(
        "updated_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=text("now()"),
        comment="When its state last changed.",
    ),
    Column("finished_at", DateTime(timezone=True), comment="When it was published, failed or skipped."),
    created_at(),
    Column(
        "kind",
        Text,
        nullable=False,
        server_default=text("'grpo'"),
        comment="What it learns from: grpo (rewards), sft (answers to imitate) or dpo (comparisons).",
    ),
    one_of("state", StepState),
    one_of("kind", StepKind),
    CheckConstraint("version > parent_version", name="version_grows"),
    Index(
        "uq_training_steps_active", "policy_id", unique=True, postgresql_where=text(f"state IN ({_ACTIVE})")
    ),
    Index("ix_training_steps_version", "policy_id", "version"),
    Index("ix_training_steps_finished_at", "finished_at", "id"),
    comment="Training steps. At most one per policy is active; Postgres decides who runs it.",
)

step_requests = Table(
    "step_requests",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7 of the request."),
    Column("policy_id", Uuid, ForeignKey("policies.id"), nullable=False, comment="The policy to train."),
    Column("kind", Text, nullable=False, comment="What to learn from: grpo, sft or dpo."),
    Column(
        "arguments",
        JSONB,
        nullable=False,
        server_default=text("'{}'"),
        comment="What was asked for: which rows, how many, settings of this step alone.",
    ),
    Column(
        "state",
        Text,
        nullable=False,
        server_default=text("'waiting'"),
        comment="waiting, taken (by a step), done or refused.",
    ),
    Column("step_id", Uuid, ForeignKey("training_steps.id"), comment="The step that took it."),
    Column("reason", Text, comment="Why it was refused, or how its step ended, in one sentence."),
    Column("finished_at", DateTime(timezone=True), comment="When it was done or refused."),
    created_at(),
    one_of("kind", StepKind),
    one_of("state", RequestState),
    Index("ix_step_requests_open", "policy_id", "id", postgresql_where=text("state IN ('waiting', 'taken')")),
    comment="Steps that somebody asked for; each is made once, in the order of asking.",
)

step_samples = Table(
    "step_samples",
    metadata,
    Column("step_id", Uuid, ForeignKey("training_steps.id"), nullable=False, comment="The step."),
    Column("exchange_id", Uuid, nullable=False, comment="The exchange."),
    Column("trajectory_id", Uuid, nullable=False, comment="Its trajectory."),
    Column("group_id", Uuid, comment="Its group, where it has one."),
    Column(
        "reward",
        Double,
        comment="Its reward as the step read it: its own, else its trajectory's; NULL = unscored.",
    ),
    Column("baseline", Double, comment="What the reward was compared with."),
    Column("baseline_kind", Text, comment="The rung of the ladder that the baseline came from."),
    Column("advantage", Double, comment="NULL = not scored; 0 = scored, no signal."),
    Column(
        "staleness",
        Integer,
        comment="The step's parent version minus the exchange's version; NULL = no version produced it.",
    ),
    Column("num_completion_tokens", Integer, nullable=False, comment="Sampled tokens of the exchange."),
    Column("is_used", Boolean, nullable=False, comment="Whether its tokens were in the loss."),
    Column("reason", Text, comment="Why it was not used."),
    Column("trajectory_reward", Double, comment="The reward of its whole trajectory, as the step read it."),
    Column(
        "reward_event_ids",
        ARRAY(Uuid),
        comment="The reward events that `reward` was made of; of sft the demonstration, of dpo the sides of comparisons.",
    ),
    Column("num_baseline_samples", Integer, comment="How many rewards the baseline is made of."),
    PrimaryKeyConstraint("step_id", "exchange_id"),
    one_of("baseline_kind", BaselineKind),
    one_of("reason", Reason),
    CheckConstraint("is_used = (reason IS NULL)", name="unused_has_reason"),
    Index("ix_step_samples_exchange_id", "exchange_id"),
    Index("ix_step_samples_trajectory_id", "trajectory_id"),
    comment="Which exchange went into which step, with which advantage, baseline and staleness, or why not.",
)

route_baselines = Table(
    "route_baselines",
    metadata,
    Column("policy_id", Uuid, ForeignKey("policies.id"), nullable=False, comment="The policy."),
    Column("route", Text, nullable=False, comment="The route (trajectories.route)."),
    Column("mean", Double, nullable=False, comment="Running mean of the rewards that steps read."),
    Column("variance", Double, nullable=False, comment="Running variance of them."),
    Column("num_samples", BigInteger, nullable=False, comment="How many rewards there were."),
    Column("step_id", Uuid, nullable=False, comment="The step that added the newest."),
    Column(
        "updated_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=text("now()"),
        comment="When the newest was added.",
    ),
    created_at(),
    PrimaryKeyConstraint("policy_id", "route"),
    CheckConstraint("num_samples >= 1", name="num_samples_positive"),
    comment="What a reward without a group is compared with: the mean of its policy's route so far.",
)

plans = Table(
    "plans",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7 of the plan."),
    Column(
        "project_id", Uuid, ForeignKey("projects.id"), nullable=False, comment="Whose groups are looked at."
    ),
    Column(
        "taken_at", DateTime(timezone=True), comment="When a worker began to compute it; NULL = none did yet."
    ),
    Column("answered_at", DateTime(timezone=True), comment="When a worker answered; NULL = none did yet."),
    Column("plan", JSONB, comment="What the next step would do; ids and numbers, no words."),
    created_at(),
    comment="Dry runs that the proxy asked a worker for. Rows are removed soon.",
)

workers = Table(
    "workers",
    metadata,
    Column("policy", Text, nullable=False, comment="Name of the policies that it trains, in every project."),
    Column("base_model", Text, nullable=False, comment="The base model that it trains them on."),
    Column("owner", Text, nullable=False, comment="The process: host, pid and a random part."),
    Column("settings", JSONB, nullable=False, comment="What decides when a step begins, and what it trains."),
    Column("started_at", DateTime(timezone=True), nullable=False, comment="When the newest one started."),
    Column("seen_at", DateTime(timezone=True), nullable=False, comment="When one was last seen alive."),
    PrimaryKeyConstraint("policy", "base_model"),
    comment="What the trainer runs with, for whoever explains what it will do. No secrets.",
)
