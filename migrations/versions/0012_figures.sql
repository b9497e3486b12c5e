-- The figures of each step, typed: ledger/figures.py lists them.

CREATE INDEX IF NOT EXISTS ix_training_steps_finished_at ON training_steps (finished_at, id);

CREATE OR REPLACE VIEW v1.step_metrics AS
SELECT
    s.id AS step_id, p.name AS project, policy.name AS policy, s.version, s.parent_version, s.kind, s.state, s.reason, s.attempt,
    s.created_at, s.finished_at,
    extract(epoch FROM s.finished_at - s.created_at)::double precision AS seconds_total,
    CASE WHEN s.finished_at IS NOT NULL THEN greatest(0, extract(epoch FROM s.finished_at - s.created_at)::double precision
        - coalesce(CAST(s.metrics ->> 'seconds_build' AS double precision), 0)
        - coalesce(CAST(s.metrics ->> 'seconds_load' AS double precision), 0)
        - coalesce(CAST(s.metrics ->> 'seconds_update' AS double precision), 0)
        - coalesce(CAST(s.metrics ->> 'seconds_save' AS double precision), 0)
        - coalesce(CAST(s.metrics ->> 'seconds_publish' AS double precision), 0)
    ) END AS seconds_waiting,
    (
        SELECT CAST(coalesce(sum(CAST(d.num_tokens AS bigint)), 0) AS bigint)
        FROM jsonb_each_text(coalesce(s.metrics -> 'tokens_dropped', '{}')) AS d(reason, num_tokens)
    ) AS tokens_dropped,
    CAST(s.settings ->> 'grad_clip' AS double precision) AS grad_clip,
    CAST(s.metrics ->> 'reward_mean' AS double precision) AS reward_mean,
    CAST(s.metrics ->> 'reward_spread' AS double precision) AS reward_spread,
    CAST(s.metrics ->> 'reward_min' AS double precision) AS reward_min,
    CAST(s.metrics ->> 'reward_max' AS double precision) AS reward_max,
    CAST(s.metrics ->> 'advantage_spread' AS double precision) AS advantage_spread,
    CAST(s.metrics ->> 'frac_groups_without_variance' AS double precision) AS frac_groups_without_variance,
    CAST(CAST(s.metrics ->> 'num_groups' AS numeric) AS bigint) AS num_groups,
    CAST(CAST(s.metrics ->> 'num_groups_without_signal' AS numeric) AS bigint) AS num_groups_without_signal,
    CAST(CAST(s.metrics ->> 'num_groups_postponed' AS numeric) AS bigint) AS num_groups_postponed,
    CAST(CAST(s.metrics ->> 'num_trajectories' AS numeric) AS bigint) AS num_trajectories,
    CAST(CAST(s.metrics ->> 'num_used_exchanges' AS numeric) AS bigint) AS num_used_exchanges,
    CAST(CAST(s.metrics ->> 'tokens_used' AS numeric) AS bigint) AS tokens_used,
    CAST(s.metrics ->> 'staleness_mean' AS double precision) AS staleness_mean,
    CAST(CAST(s.metrics ->> 'staleness_max' AS numeric) AS bigint) AS staleness_max,
    CAST(s.metrics ->> 'prompt_tokens_mean' AS double precision) AS prompt_tokens_mean,
    CAST(CAST(s.metrics ->> 'prompt_tokens_max' AS numeric) AS bigint) AS prompt_tokens_max,
    CAST(s.metrics ->> 'completion_tokens_mean' AS double precision) AS completion_tokens_mean,
    CAST(CAST(s.metrics ->> 'completion_tokens_max' AS numeric) AS bigint) AS completion_tokens_max,
    CAST(s.metrics ->> 'loss' AS double precision) AS loss,
    CAST(s.metrics ->> 'ratio_mean' AS double precision) AS ratio_mean,
    CAST(s.metrics ->> 'ratio_max' AS double precision) AS ratio_max,
    CAST(s.metrics ->> 'ratio_min' AS double precision) AS ratio_min,
    CAST(s.metrics ->> 'ratio_high_fraction' AS double precision) AS ratio_high_fraction,
    CAST(s.metrics ->> 'ratio_low_fraction' AS double precision) AS ratio_low_fraction,
    CAST(s.metrics ->> 'sequence_ratio_mean' AS double precision) AS sequence_ratio_mean,
    CAST(s.metrics ->> 'sequence_ratio_max' AS double precision) AS sequence_ratio_max,
    CAST(s.metrics ->> 'clipped_fraction' AS double precision) AS clipped_fraction,
    CAST(s.metrics ->> 'masked_fraction' AS double precision) AS masked_fraction,
    CAST(s.metrics ->> 'clipped_exchange_fraction' AS double precision) AS clipped_exchange_fraction,
    CAST(s.metrics ->> 'masked_exchange_fraction' AS double precision) AS masked_exchange_fraction,
    CAST(s.metrics ->> 'bounded_exchange_fraction' AS double precision) AS bounded_exchange_fraction,
    CAST(s.metrics ->> 'logprob_difference' AS double precision) AS logprob_difference,
    CAST(s.metrics ->> 'approximate_kl' AS double precision) AS approximate_kl,
    CAST(s.metrics ->> 'base_kl' AS double precision) AS base_kl,
    CAST(s.metrics ->> 'entropy' AS double precision) AS entropy,
    CAST(s.metrics ->> 'policy_logprob' AS double precision) AS policy_logprob,
    CAST(s.metrics ->> 'grad_norm' AS double precision) AS grad_norm,
    CAST(s.metrics ->> 'learning_rate' AS double precision) AS learning_rate,
    CAST(CAST(s.metrics ->> 'num_trained_tokens' AS numeric) AS bigint) AS num_trained_tokens,
    CAST(CAST(s.metrics ->> 'num_rows' AS numeric) AS bigint) AS num_rows,
    CAST(CAST(s.metrics ->> 'num_packed_tokens' AS numeric) AS bigint) AS num_packed_tokens,
    CAST(CAST(s.metrics ->> 'num_unpacked_tokens' AS numeric) AS bigint) AS num_unpacked_tokens,
    CAST(s.metrics ->> 'seconds_claim' AS double precision) AS seconds_claim,
    CAST(s.metrics ->> 'seconds_build' AS double precision) AS seconds_build,
    CAST(s.metrics ->> 'seconds_load' AS double precision) AS seconds_load,
    CAST(s.metrics ->> 'seconds_update' AS double precision) AS seconds_update,
    CAST(s.metrics ->> 'seconds_save' AS double precision) AS seconds_save,
    CAST(s.metrics ->> 'seconds_publish' AS double precision) AS seconds_publish,
    CAST(s.metrics ->> 'loss_first' AS double precision) AS loss_first,
    CAST(s.metrics ->> 'loss_last' AS double precision) AS loss_last,
    CAST(s.metrics ->> 'loss_before' AS double precision) AS loss_before,
    CAST(s.metrics ->> 'accuracy' AS double precision) AS accuracy,
    CAST(s.metrics ->> 'accuracy_before' AS double precision) AS accuracy_before,
    CAST(s.metrics ->> 'margin' AS double precision) AS margin,
    CAST(s.metrics ->> 'margin_before' AS double precision) AS margin_before,
    CAST(s.metrics ->> 'beta' AS double precision) AS beta,
    CAST(CAST(s.metrics ->> 'num_found' AS numeric) AS bigint) AS num_found,
    CAST(CAST(s.metrics ->> 'num_pairs' AS numeric) AS bigint) AS num_pairs,
    CAST(CAST(s.metrics ->> 'num_epochs' AS numeric) AS bigint) AS num_epochs,
    CAST(CAST(s.metrics ->> 'num_optimizer_steps' AS numeric) AS bigint) AS num_optimizer_steps,
    CAST(CAST(s.metrics ->> 'num_processes' AS numeric) AS bigint) AS num_processes,
    CAST(s.metrics ->> 'process_balance' AS double precision) AS process_balance,
    CAST(CAST(s.metrics ->> 'peak_memory_mib' AS numeric) AS bigint) AS peak_memory_mib,
    CAST(CAST(s.metrics ->> 'predicted_memory_mib' AS numeric) AS bigint) AS predicted_memory_mib,
    CAST(CAST(s.metrics ->> 'row_tokens' AS numeric) AS bigint) AS row_tokens,
    CAST(CAST(s.metrics ->> 'num_memory_retries' AS numeric) AS bigint) AS num_memory_retries,
    CAST(s.metrics ->> 'probe_difference' AS double precision) AS probe_difference,
    CAST(CAST(s.metrics ->> 'publish_waits' AS numeric) AS bigint) AS publish_waits,
    CAST(CAST(s.metrics ->> 'publish_refusals' AS numeric) AS bigint) AS publish_refusals
FROM public.training_steps AS s
JOIN public.policies AS policy ON policy.id = s.policy_id
JOIN public.projects AS p ON p.id = policy.project_id;

COMMENT ON VIEW v1.step_metrics IS 'The figures of each training step, a column each; NULL = this step has none, or it was not finite.';
COMMENT ON COLUMN v1.step_metrics.step_id IS 'UUIDv7 of the step.';
COMMENT ON COLUMN v1.step_metrics.project IS 'Name of the tenant.';
COMMENT ON COLUMN v1.step_metrics.policy IS 'Name of the policy that it trains.';
COMMENT ON COLUMN v1.step_metrics.version IS 'The version that it makes; several steps that failed or were skipped may have had the same number.';
COMMENT ON COLUMN v1.step_metrics.parent_version IS 'The version that it starts from.';
COMMENT ON COLUMN v1.step_metrics.kind IS 'What it learns from: grpo (rewards), sft (answers to imitate) or dpo (comparisons).';
COMMENT ON COLUMN v1.step_metrics.state IS 'claimed, built, updated, saved, published, failed or skipped.';
COMMENT ON COLUMN v1.step_metrics.reason IS 'Why it was skipped or failed, in one sentence.';
COMMENT ON COLUMN v1.step_metrics.attempt IS 'How often it was started.';
COMMENT ON COLUMN v1.step_metrics.created_at IS 'When its groups were claimed (UTC).';
COMMENT ON COLUMN v1.step_metrics.finished_at IS 'When it was published, failed or skipped; NULL = it is not over.';
COMMENT ON COLUMN v1.step_metrics.seconds_total IS 'From created_at to finished_at.';
COMMENT ON COLUMN v1.step_metrics.seconds_waiting IS 'What of seconds_total is in no phase: for a replica, for a worker, and attempts that came to nothing.';
COMMENT ON COLUMN v1.step_metrics.tokens_dropped IS 'Sampled tokens of exchanges that were not used; v1.step_drops has them by reason.';
COMMENT ON COLUMN v1.step_metrics.grad_clip IS 'The gradient norm beyond which this step''s gradient was scaled down.';
COMMENT ON COLUMN v1.step_metrics.reward_mean IS 'Mean reward of the trajectories that the step read.';
COMMENT ON COLUMN v1.step_metrics.reward_spread IS 'Standard deviation of these rewards.';
COMMENT ON COLUMN v1.step_metrics.reward_min IS 'The lowest of them.';
COMMENT ON COLUMN v1.step_metrics.reward_max IS 'The highest of them.';
COMMENT ON COLUMN v1.step_metrics.advantage_spread IS 'Standard deviation of the exchanges'' advantages.';
COMMENT ON COLUMN v1.step_metrics.frac_groups_without_variance IS 'Groups whose rewards are all alike.';
COMMENT ON COLUMN v1.step_metrics.num_groups IS 'Groups that the step read.';
COMMENT ON COLUMN v1.step_metrics.num_groups_without_signal IS 'Groups of which nothing was used.';
COMMENT ON COLUMN v1.step_metrics.num_groups_postponed IS 'Groups left to the next step: no room for their tokens.';
COMMENT ON COLUMN v1.step_metrics.num_trajectories IS 'Trajectories that the step read.';
COMMENT ON COLUMN v1.step_metrics.num_used_exchanges IS 'Exchanges that are learned from.';
COMMENT ON COLUMN v1.step_metrics.tokens_used IS 'Sampled tokens of these exchanges.';
COMMENT ON COLUMN v1.step_metrics.staleness_mean IS 'How old the used exchanges are: the parent''s version minus theirs.';
COMMENT ON COLUMN v1.step_metrics.staleness_max IS 'The oldest of them.';
COMMENT ON COLUMN v1.step_metrics.prompt_tokens_mean IS 'Mean tokens before each used completion, earlier turns included.';
COMMENT ON COLUMN v1.step_metrics.prompt_tokens_max IS 'The longest of them.';
COMMENT ON COLUMN v1.step_metrics.completion_tokens_mean IS 'Mean tokens of the used completions.';
COMMENT ON COLUMN v1.step_metrics.completion_tokens_max IS 'The longest of them.';
COMMENT ON COLUMN v1.step_metrics.loss IS 'The loss before the update. Near 0 while a step learns: its gradient is not.';
COMMENT ON COLUMN v1.step_metrics.ratio_mean IS 'Mean probability of a sampled token now, relative to when it was sampled.';
COMMENT ON COLUMN v1.step_metrics.ratio_max IS 'The largest of these ratios.';
COMMENT ON COLUMN v1.step_metrics.ratio_min IS 'The smallest of these ratios.';
COMMENT ON COLUMN v1.step_metrics.ratio_high_fraction IS 'Tokens whose ratio is above 2.';
COMMENT ON COLUMN v1.step_metrics.ratio_low_fraction IS 'Tokens whose ratio is below 1/2.';
COMMENT ON COLUMN v1.step_metrics.sequence_ratio_mean IS 'Mean over exchanges of the geometric mean of their tokens'' ratios.';
COMMENT ON COLUMN v1.step_metrics.sequence_ratio_max IS 'The largest of these geometric means.';
COMMENT ON COLUMN v1.step_metrics.clipped_fraction IS 'Tokens whose ratio the loss bounds.';
COMMENT ON COLUMN v1.step_metrics.masked_fraction IS 'Tokens outside SLIPSTREAM_TRUST_LOG_RATIO: not learned from.';
COMMENT ON COLUMN v1.step_metrics.clipped_exchange_fraction IS 'Exchanges with a token whose ratio the loss bounds.';
COMMENT ON COLUMN v1.step_metrics.masked_exchange_fraction IS 'Exchanges with a masked token.';
COMMENT ON COLUMN v1.step_metrics.bounded_exchange_fraction IS 'Exchanges with either.';
COMMENT ON COLUMN v1.step_metrics.logprob_difference IS 'Mean distance between recomputed and sampled logprobs.';
COMMENT ON COLUMN v1.step_metrics.approximate_kl IS 'Divergence (k3) of the present policy from the one that sampled, a token.';
COMMENT ON COLUMN v1.step_metrics.base_kl IS 'Divergence (k3) of the policy from the base model, a token; only where SLIPSTREAM_KL is above 0.';
COMMENT ON COLUMN v1.step_metrics.entropy IS 'Mean entropy of the policy where tokens were sampled.';
COMMENT ON COLUMN v1.step_metrics.policy_logprob IS 'Mean logprob that the policy gives the tokens learned from.';
COMMENT ON COLUMN v1.step_metrics.grad_norm IS 'Norm of the gradient, before it is clipped.';
COMMENT ON COLUMN v1.step_metrics.learning_rate IS 'The learning rate of this step, warm-up included.';
COMMENT ON COLUMN v1.step_metrics.num_trained_tokens IS 'Tokens in the loss, the masked ones included.';
COMMENT ON COLUMN v1.step_metrics.num_rows IS 'Packed rows that went through the model.';
COMMENT ON COLUMN v1.step_metrics.num_packed_tokens IS 'Tokens of these rows, each common prefix once.';
COMMENT ON COLUMN v1.step_metrics.num_unpacked_tokens IS 'What the same samples hold one by one.';
COMMENT ON COLUMN v1.step_metrics.seconds_claim IS 'Looking for groups, and taking them.';
COMMENT ON COLUMN v1.step_metrics.seconds_build IS 'claimed to built: reading exchanges and rewards, deciding.';
COMMENT ON COLUMN v1.step_metrics.seconds_load IS 'Reading the samples, the base model and the parent.';
COMMENT ON COLUMN v1.step_metrics.seconds_update IS 'Loss, gradients, optimizer: built to updated with the loading.';
COMMENT ON COLUMN v1.step_metrics.seconds_save IS 'updated to saved: checkpoint and adapter on disk.';
COMMENT ON COLUMN v1.step_metrics.seconds_publish IS 'saved to published, the last attempt: loading and probing on every replica.';
COMMENT ON COLUMN v1.step_metrics.loss_first IS 'sft: the loss of the first batch.';
COMMENT ON COLUMN v1.step_metrics.loss_last IS 'sft: the loss of the last batch.';
COMMENT ON COLUMN v1.step_metrics.loss_before IS 'dpo: the loss before the step; `loss` is after it.';
COMMENT ON COLUMN v1.step_metrics.accuracy IS 'dpo: pairs whose preferred answer gained more than the other, after the step.';
COMMENT ON COLUMN v1.step_metrics.accuracy_before IS 'dpo: the same before the step.';
COMMENT ON COLUMN v1.step_metrics.margin IS 'dpo: by how much more, on average, after the step.';
COMMENT ON COLUMN v1.step_metrics.margin_before IS 'dpo: the same before the step.';
COMMENT ON COLUMN v1.step_metrics.beta IS 'dpo: how strongly the base model is held to.';
COMMENT ON COLUMN v1.step_metrics.num_found IS 'sft, dpo: answers or comparisons that were found.';
COMMENT ON COLUMN v1.step_metrics.num_pairs IS 'dpo: comparisons that are learned from.';
COMMENT ON COLUMN v1.step_metrics.num_epochs IS 'sft, dpo: how often each is gone through.';
COMMENT ON COLUMN v1.step_metrics.num_optimizer_steps IS 'sft, dpo: how often the adapter moved.';
COMMENT ON COLUMN v1.step_metrics.num_processes IS 'Processes that shared the update, where there are several.';
COMMENT ON COLUMN v1.step_metrics.process_balance IS 'The mean work of these, of that of the busiest.';
COMMENT ON COLUMN v1.step_metrics.peak_memory_mib IS 'Peak memory of the update: of the GPU, else of the worker''s process.';
COMMENT ON COLUMN v1.step_metrics.predicted_memory_mib IS 'What the update was predicted to need, the model included.';
COMMENT ON COLUMN v1.step_metrics.row_tokens IS 'The longest row that memory was predicted to hold; SLIPSTREAM_ROW_TOKENS at most.';
COMMENT ON COLUMN v1.step_metrics.num_memory_retries IS 'How often memory ran out all the same, and shorter rows were taken.';
COMMENT ON COLUMN v1.step_metrics.probe_difference IS 'Largest difference between a replica''s and the trainer''s logprobs in the probe.';
COMMENT ON COLUMN v1.step_metrics.publish_waits IS 'How often publishing waited for a replica.';
COMMENT ON COLUMN v1.step_metrics.publish_refusals IS 'How often a replica refused the adapter.';

CREATE OR REPLACE VIEW v1.step_drops AS
SELECT
    s.id AS step_id, p.name AS project, policy.name AS policy, s.version, s.state, s.finished_at, d.reason,
    CAST(d.num_tokens AS bigint) AS num_tokens
FROM public.training_steps AS s
JOIN public.policies AS policy ON policy.id = s.policy_id
JOIN public.projects AS p ON p.id = policy.project_id
CROSS JOIN LATERAL jsonb_each_text(coalesce(s.metrics -> 'tokens_dropped', '{}')) AS d(reason, num_tokens);

COMMENT ON VIEW v1.step_drops IS 'Sampled tokens that a step read and did not learn from, by reason.';
COMMENT ON COLUMN v1.step_drops.step_id IS 'UUIDv7 of the step.';
COMMENT ON COLUMN v1.step_drops.project IS 'Name of the tenant.';
COMMENT ON COLUMN v1.step_drops.policy IS 'Name of the policy that it trains.';
COMMENT ON COLUMN v1.step_drops.version IS 'The version that it makes.';
COMMENT ON COLUMN v1.step_drops.state IS 'How far the step is.';
COMMENT ON COLUMN v1.step_drops.finished_at IS 'When it was over.';
COMMENT ON COLUMN v1.step_drops.reason IS 'Why the exchanges were not used.';
COMMENT ON COLUMN v1.step_drops.num_tokens IS 'Their sampled tokens.';
