-- The trainer: kinds of steps, steps that somebody asked for, policies that pause, the shape of each adapter.

CREATE TABLE IF NOT EXISTS step_requests (
    id UUID NOT NULL,
    policy_id UUID NOT NULL,
    kind TEXT NOT NULL,
    arguments JSONB DEFAULT '{}' NOT NULL,
    state TEXT DEFAULT 'waiting' NOT NULL,
    step_id UUID,
    reason TEXT,
    finished_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_step_requests PRIMARY KEY (id),
    CONSTRAINT ck_step_requests_kind_known CHECK (kind IN ('grpo', 'sft', 'dpo')),
    CONSTRAINT ck_step_requests_state_known CHECK (state IN ('waiting', 'taken', 'done', 'refused')),
    CONSTRAINT fk_step_requests_policy_id_policies FOREIGN KEY(policy_id) REFERENCES policies (id),
    CONSTRAINT fk_step_requests_step_id_training_steps FOREIGN KEY(step_id) REFERENCES training_steps (id)
);

CREATE INDEX IF NOT EXISTS ix_step_requests_open ON step_requests (policy_id, id) WHERE state IN ('waiting', 'taken');
COMMENT ON TABLE step_requests IS 'Steps that somebody asked for; each is made once, in the order of asking.';
COMMENT ON COLUMN step_requests.id IS 'UUIDv7 of the request.';
COMMENT ON COLUMN step_requests.policy_id IS 'The policy to train.';
COMMENT ON COLUMN step_requests.kind IS 'What to learn from: grpo, sft or dpo.';
COMMENT ON COLUMN step_requests.arguments IS 'What was asked for: which rows, how many, settings of this step alone.';
COMMENT ON COLUMN step_requests.state IS 'waiting, taken (by a step), done or refused.';
COMMENT ON COLUMN step_requests.step_id IS 'The step that took it.';
COMMENT ON COLUMN step_requests.reason IS 'Why it was refused, or how its step ended, in one sentence.';
COMMENT ON COLUMN step_requests.finished_at IS 'When it was done or refused.';
COMMENT ON COLUMN step_requests.created_at IS 'When the row was written (UTC).';

ALTER TABLE training_steps ADD COLUMN IF NOT EXISTS kind TEXT DEFAULT 'grpo' NOT NULL;
ALTER TABLE policies ADD COLUMN IF NOT EXISTS paused_at TIMESTAMP WITH TIME ZONE;
ALTER TABLE policies ADD COLUMN IF NOT EXISTS paused_reason TEXT;
ALTER TABLE policy_versions ADD COLUMN IF NOT EXISTS lora_rank INTEGER;
ALTER TABLE policy_versions ADD COLUMN IF NOT EXISTS lora_alpha DOUBLE PRECISION;
COMMENT ON COLUMN training_steps.kind IS 'What it learns from: grpo (rewards), sft (answers to imitate) or dpo (comparisons).';
COMMENT ON COLUMN policies.paused_at IS 'Since when it begins no step; NULL = it learns.';
COMMENT ON COLUMN policies.paused_reason IS 'Why it does not, in one sentence.';
COMMENT ON COLUMN policy_versions.lora_rank IS 'The adapter''s rank; NULL for the base, and before it was recorded.';
COMMENT ON COLUMN policy_versions.lora_alpha IS 'The adapter''s alpha; likewise.';

ALTER TABLE step_samples ALTER COLUMN group_id DROP NOT NULL;
COMMENT ON COLUMN step_samples.group_id IS 'Its group, where it has one.';
COMMENT ON COLUMN step_samples.reward_event_ids IS 'The reward events that `reward` was made of; of sft the demonstration, of dpo the sides of comparisons.';

ALTER TABLE training_steps DROP CONSTRAINT IF EXISTS ck_training_steps_kind_known;
ALTER TABLE training_steps ADD CONSTRAINT ck_training_steps_kind_known CHECK (kind IN ('grpo', 'sft', 'dpo'));

CREATE OR REPLACE VIEW v1.versions AS
SELECT
    p.name AS project, policy.name AS policy, v.version, policy.name || '@' || v.version AS model,
    v.parent_version, v.state, v.version = policy.live_version AS is_live, policy.base_model,
    v.adapter_path, v.adapter_sha256, v.published_at, v.created_at, policy.reward_min, policy.reward_max,
    v.lora_rank, v.lora_alpha
FROM public.policy_versions AS v
JOIN public.policies AS policy ON policy.id = v.policy_id
JOIN public.projects AS p ON p.id = policy.project_id;

COMMENT ON COLUMN v1.versions.lora_rank IS 'The adapter''s rank; NULL for the base, and before it was recorded.';
COMMENT ON COLUMN v1.versions.lora_alpha IS 'The adapter''s alpha; likewise.';

CREATE OR REPLACE VIEW v1.steps AS
SELECT
    s.id, p.name AS project, policy.name AS policy, s.version, s.parent_version, s.state, s.attempt, s.reason,
    samples.num_groups, samples.num_samples, samples.num_used, samples.num_completion_tokens,
    s.seed, s.settings, s.metrics, s.created_at, s.updated_at, s.finished_at, s.kind
FROM public.training_steps AS s
JOIN public.policies AS policy ON policy.id = s.policy_id
JOIN public.projects AS p ON p.id = policy.project_id
CROSS JOIN LATERAL (
    SELECT
        count(DISTINCT x.group_id) AS num_groups,
        count(*) AS num_samples,
        count(*) FILTER (WHERE x.is_used) AS num_used,
        coalesce(sum(x.num_completion_tokens) FILTER (WHERE x.is_used), 0) AS num_completion_tokens
    FROM public.step_samples AS x
    WHERE x.step_id = s.id
) AS samples;

COMMENT ON COLUMN v1.steps.kind IS 'What it learns from: grpo (rewards), sft (answers to imitate) or dpo (comparisons).';

COMMENT ON COLUMN v1.lineage.group_id IS 'Its group, where it has one.';
COMMENT ON COLUMN v1.lineage.reward_event_ids IS 'The reward events that `reward` was made of; of sft the demonstration, of dpo the sides of comparisons.';

CREATE OR REPLACE VIEW v1.step_requests AS
SELECT
    r.id, p.name AS project, policy.name AS policy, r.kind, r.arguments, r.state, r.reason, r.step_id, s.version,
    s.state AS step_state, r.created_at, r.finished_at
FROM public.step_requests AS r
JOIN public.policies AS policy ON policy.id = r.policy_id
JOIN public.projects AS p ON p.id = policy.project_id
LEFT JOIN public.training_steps AS s ON s.id = r.step_id;

COMMENT ON VIEW v1.step_requests IS 'Steps that somebody asked for, and what became of them.';
COMMENT ON COLUMN v1.step_requests.id IS 'UUIDv7 of the request.';
COMMENT ON COLUMN v1.step_requests.project IS 'Name of the tenant.';
COMMENT ON COLUMN v1.step_requests.policy IS 'Name of the policy to train.';
COMMENT ON COLUMN v1.step_requests.kind IS 'What to learn from: grpo, sft or dpo.';
COMMENT ON COLUMN v1.step_requests.arguments IS 'What was asked for: which rows, how many, settings of this step alone.';
COMMENT ON COLUMN v1.step_requests.state IS 'waiting, taken (by a step), done or refused.';
COMMENT ON COLUMN v1.step_requests.reason IS 'Why it was refused, or how its step ended, in one sentence.';
COMMENT ON COLUMN v1.step_requests.step_id IS 'The step that took it.';
COMMENT ON COLUMN v1.step_requests.version IS 'The version which that step makes.';
COMMENT ON COLUMN v1.step_requests.step_state IS 'How far that step is.';
COMMENT ON COLUMN v1.step_requests.created_at IS 'When it was asked for (UTC).';
COMMENT ON COLUMN v1.step_requests.finished_at IS 'When it was done or refused.';
