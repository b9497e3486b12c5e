-- Steps, and what went into them.

CREATE TABLE training_steps (
    id UUID NOT NULL,
    policy_id UUID NOT NULL,
    version INTEGER NOT NULL,
    parent_version INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempt INTEGER DEFAULT 1 NOT NULL,
    fencing_token BIGINT DEFAULT 1 NOT NULL,
    lease_owner TEXT,
    lease_expires_at TIMESTAMP WITH TIME ZONE,
    seed BIGINT NOT NULL,
    settings JSONB NOT NULL,
    metrics JSONB DEFAULT '{}' NOT NULL,
    reason TEXT,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_training_steps PRIMARY KEY (id),
    CONSTRAINT ck_training_steps_state_known CHECK (state IN ('claimed', 'built', 'updated', 'saved', 'published', 'failed', 'skipped')),
    CONSTRAINT ck_training_steps_version_grows CHECK (version > parent_version),
    CONSTRAINT fk_training_steps_policy_id_policies FOREIGN KEY(policy_id) REFERENCES policies (id)
);

CREATE INDEX ix_training_steps_version ON training_steps (policy_id, version);
CREATE UNIQUE INDEX uq_training_steps_active ON training_steps (policy_id) WHERE state IN ('claimed', 'built', 'updated', 'saved');

COMMENT ON TABLE training_steps IS 'Training steps. At most one per policy is active; Postgres decides who runs it.';
COMMENT ON COLUMN training_steps.id IS 'UUIDv7 of the step.';
COMMENT ON COLUMN training_steps.policy_id IS 'The policy it trains.';
COMMENT ON COLUMN training_steps.version IS 'The version it makes; step n makes version n.';
COMMENT ON COLUMN training_steps.parent_version IS 'The version it starts from.';
COMMENT ON COLUMN training_steps.state IS 'claimed, built, updated, saved, published, failed or skipped.';
COMMENT ON COLUMN training_steps.attempt IS 'How often it was started.';
COMMENT ON COLUMN training_steps.fencing_token IS 'Grows with each take-over; a writer with an older one is refused.';
COMMENT ON COLUMN training_steps.lease_owner IS 'The worker that holds it.';
COMMENT ON COLUMN training_steps.lease_expires_at IS 'When another worker may take it over (Postgres'' clock).';
COMMENT ON COLUMN training_steps.seed IS 'Seed of everything random in the step.';
COMMENT ON COLUMN training_steps.settings IS 'The learning settings that the step used.';
COMMENT ON COLUMN training_steps.metrics IS 'Loss, reward, ratio, lengths, tokens, seconds by phase.';
COMMENT ON COLUMN training_steps.reason IS 'Why it was skipped or failed, in one sentence.';
COMMENT ON COLUMN training_steps.updated_at IS 'When its state last changed.';
COMMENT ON COLUMN training_steps.finished_at IS 'When it was published, failed or skipped.';
COMMENT ON COLUMN training_steps.created_at IS 'When the row was written (UTC).';

CREATE TABLE step_samples (
    step_id UUID NOT NULL,
    exchange_id UUID NOT NULL,
    trajectory_id UUID NOT NULL,
    group_id UUID NOT NULL,
    reward DOUBLE PRECISION,
    baseline DOUBLE PRECISION,
    baseline_kind TEXT,
    advantage DOUBLE PRECISION,
    staleness INTEGER NOT NULL,
    num_completion_tokens INTEGER NOT NULL,
    is_used BOOLEAN NOT NULL,
    reason TEXT,
    CONSTRAINT pk_step_samples PRIMARY KEY (step_id, exchange_id),
    CONSTRAINT ck_step_samples_baseline_kind_known CHECK (baseline_kind IN ('explicit_group', 'choices_group', 'prompt_group')),
    CONSTRAINT ck_step_samples_reason_known CHECK (reason IN ('missing_token_ids', 'missing_logprobs', 'logprobs_mismatch', 'version_mismatch', 'greedy', 'cancelled', 'failed', 'interrupted', 'empty_completion', 'external_model', 'opted_out', 'duplicate_retry', 'unscored', 'no_variance', 'group_incomplete', 'group_already_trained', 'too_stale', 'too_long')),
    CONSTRAINT ck_step_samples_unused_has_reason CHECK (is_used = (reason IS NULL)),
    CONSTRAINT fk_step_samples_step_id_training_steps FOREIGN KEY(step_id) REFERENCES training_steps (id)
);

CREATE INDEX ix_step_samples_exchange_id ON step_samples (exchange_id);
CREATE INDEX ix_step_samples_trajectory_id ON step_samples (trajectory_id);

COMMENT ON TABLE step_samples IS 'Which exchange went into which step, with which advantage, baseline and staleness, or why not.';
COMMENT ON COLUMN step_samples.step_id IS 'The step.';
COMMENT ON COLUMN step_samples.exchange_id IS 'The exchange.';
COMMENT ON COLUMN step_samples.trajectory_id IS 'Its trajectory.';
COMMENT ON COLUMN step_samples.group_id IS 'Its group.';
COMMENT ON COLUMN step_samples.reward IS 'The trajectory''s reward as the step read it; NULL = unscored.';
COMMENT ON COLUMN step_samples.baseline IS 'What the reward was compared with.';
COMMENT ON COLUMN step_samples.baseline_kind IS 'The rung of the ladder that the baseline came from.';
COMMENT ON COLUMN step_samples.advantage IS 'NULL = not scored; 0 = scored, no signal.';
COMMENT ON COLUMN step_samples.staleness IS 'The step''s parent version minus the exchange''s version.';
COMMENT ON COLUMN step_samples.num_completion_tokens IS 'Sampled tokens of the exchange.';
COMMENT ON COLUMN step_samples.is_used IS 'Whether its tokens were in the loss.';
COMMENT ON COLUMN step_samples.reason IS 'Why it was not used.';
