-- Schema v1: versions, the steps that made them, and what those learned from.

CREATE VIEW v1.versions AS
SELECT
    p.name AS project, policy.name AS policy, v.version, policy.name || '@' || v.version AS model,
    v.parent_version, v.state, v.version = policy.live_version AS is_live, policy.base_model,
    v.adapter_path, v.adapter_sha256, v.published_at, v.created_at
FROM public.policy_versions AS v
JOIN public.policies AS policy ON policy.id = v.policy_id
JOIN public.projects AS p ON p.id = policy.project_id;

COMMENT ON VIEW v1.versions IS 'The line of versions of each policy.';
COMMENT ON COLUMN v1.versions.project IS 'Name of the tenant.';
COMMENT ON COLUMN v1.versions.policy IS 'Name of the policy.';
COMMENT ON COLUMN v1.versions.version IS '0 = the base model; only grows.';
COMMENT ON COLUMN v1.versions.model IS 'NAME@version: `model` as a client says it.';
COMMENT ON COLUMN v1.versions.parent_version IS 'The version it was trained from; NULL for the base.';
COMMENT ON COLUMN v1.versions.state IS 'base, saved, published, retired or failed.';
COMMENT ON COLUMN v1.versions.is_live IS 'Whether new trajectories get it.';
COMMENT ON COLUMN v1.versions.base_model IS 'The name or path of the base model in vLLM.';
COMMENT ON COLUMN v1.versions.adapter_path IS 'Its directory below the adapters'' root; NULL for the base. Never reused.';
COMMENT ON COLUMN v1.versions.adapter_sha256 IS 'Hex digest of adapter_model.safetensors.';
COMMENT ON COLUMN v1.versions.published_at IS 'When it first became live.';
COMMENT ON COLUMN v1.versions.created_at IS 'When the row was written (UTC).';

CREATE VIEW v1.steps AS
SELECT
    s.id, p.name AS project, policy.name AS policy, s.version, s.parent_version, s.state, s.attempt, s.reason,
    samples.num_groups, samples.num_samples, samples.num_used, samples.num_completion_tokens,
    s.seed, s.settings, s.metrics, s.created_at, s.updated_at, s.finished_at
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

COMMENT ON VIEW v1.steps IS 'Training steps: step n makes version n.';
COMMENT ON COLUMN v1.steps.id IS 'UUIDv7 of the step.';
COMMENT ON COLUMN v1.steps.project IS 'Name of the tenant.';
COMMENT ON COLUMN v1.steps.policy IS 'Name of the policy it trains.';
COMMENT ON COLUMN v1.steps.version IS 'The version it makes; step n makes version n.';
COMMENT ON COLUMN v1.steps.parent_version IS 'The version it starts from.';
COMMENT ON COLUMN v1.steps.state IS 'claimed, built, updated, saved, published, failed or skipped.';
COMMENT ON COLUMN v1.steps.attempt IS 'How often it was started.';
COMMENT ON COLUMN v1.steps.reason IS 'Why it was skipped or failed, in one sentence.';
COMMENT ON COLUMN v1.steps.num_groups IS 'How many groups it looked at.';
COMMENT ON COLUMN v1.steps.num_samples IS 'How many exchanges it looked at.';
COMMENT ON COLUMN v1.steps.num_used IS 'How many of them were in the loss.';
COMMENT ON COLUMN v1.steps.num_completion_tokens IS 'Sampled tokens that were in the loss.';
COMMENT ON COLUMN v1.steps.seed IS 'Seed of everything random in the step.';
COMMENT ON COLUMN v1.steps.settings IS 'The learning settings that the step used.';
COMMENT ON COLUMN v1.steps.metrics IS 'Loss, reward, ratio, lengths, tokens, seconds by phase.';
COMMENT ON COLUMN v1.steps.created_at IS 'When the row was written (UTC).';
COMMENT ON COLUMN v1.steps.updated_at IS 'When its state last changed.';
COMMENT ON COLUMN v1.steps.finished_at IS 'When it was published, failed or skipped.';

CREATE VIEW v1.lineage AS
SELECT
    p.name AS project, policy.name AS policy, s.version, x.step_id, s.state AS step_state, x.exchange_id,
    x.trajectory_id, x.group_id, s.parent_version - x.staleness AS sample_version, x.staleness, x.reward, x.baseline,
    x.baseline_kind, x.advantage, x.num_completion_tokens, x.is_used, x.reason
FROM public.step_samples AS x
JOIN public.training_steps AS s ON s.id = x.step_id
JOIN public.policies AS policy ON policy.id = s.policy_id
JOIN public.projects AS p ON p.id = policy.project_id;

COMMENT ON VIEW v1.lineage IS 'What made each version: every exchange that a step looked at, used or left out with its reason.';
COMMENT ON COLUMN v1.lineage.project IS 'Name of the tenant.';
COMMENT ON COLUMN v1.lineage.policy IS 'Name of the policy.';
COMMENT ON COLUMN v1.lineage.version IS 'The version it makes; step n makes version n.';
COMMENT ON COLUMN v1.lineage.step_id IS 'The step.';
COMMENT ON COLUMN v1.lineage.step_state IS 'State of the step: only `published` ones made a version that served.';
COMMENT ON COLUMN v1.lineage.exchange_id IS 'The exchange.';
COMMENT ON COLUMN v1.lineage.trajectory_id IS 'Its trajectory.';
COMMENT ON COLUMN v1.lineage.group_id IS 'Its group.';
COMMENT ON COLUMN v1.lineage.sample_version IS 'The version that produced the exchange.';
COMMENT ON COLUMN v1.lineage.staleness IS 'The step''s parent version minus the exchange''s version.';
COMMENT ON COLUMN v1.lineage.reward IS 'The trajectory''s reward as the step read it; NULL = unscored.';
COMMENT ON COLUMN v1.lineage.baseline IS 'What the reward was compared with.';
COMMENT ON COLUMN v1.lineage.baseline_kind IS 'The rung of the ladder that the baseline came from.';
COMMENT ON COLUMN v1.lineage.advantage IS 'NULL = not scored; 0 = scored, no signal.';
COMMENT ON COLUMN v1.lineage.num_completion_tokens IS 'Sampled tokens of the exchange.';
COMMENT ON COLUMN v1.lineage.is_used IS 'Whether its tokens were in the loss.';
COMMENT ON COLUMN v1.lineage.reason IS 'Why it was not used.';
