-- One more reason why an exchange was not trained: reshaped.

ALTER TABLE exchanges DROP CONSTRAINT IF EXISTS ck_exchanges_untrainable_reason_known;
ALTER TABLE exchanges ADD CONSTRAINT ck_exchanges_untrainable_reason_known
    CHECK (untrainable_reason IN ('missing_token_ids', 'missing_logprobs', 'logprobs_mismatch', 'version_mismatch', 'greedy', 'cancelled', 'failed', 'interrupted', 'empty_completion', 'external_model', 'opted_out', 'duplicate_retry', 'unscored', 'no_variance', 'group_incomplete', 'group_already_trained', 'too_stale', 'too_long', 'truncated', 'no_baseline', 'reshaped', 'erased')) NOT VALID;
ALTER TABLE step_samples DROP CONSTRAINT IF EXISTS ck_step_samples_reason_known;
ALTER TABLE step_samples ADD CONSTRAINT ck_step_samples_reason_known
    CHECK (reason IN ('missing_token_ids', 'missing_logprobs', 'logprobs_mismatch', 'version_mismatch', 'greedy', 'cancelled', 'failed', 'interrupted', 'empty_completion', 'external_model', 'opted_out', 'duplicate_retry', 'unscored', 'no_variance', 'group_incomplete', 'group_already_trained', 'too_stale', 'too_long', 'truncated', 'no_baseline', 'reshaped', 'erased')) NOT VALID;
ALTER TABLE groups DROP CONSTRAINT IF EXISTS ck_groups_reason_known;
ALTER TABLE groups ADD CONSTRAINT ck_groups_reason_known
    CHECK (reason IN ('missing_token_ids', 'missing_logprobs', 'logprobs_mismatch', 'version_mismatch', 'greedy', 'cancelled', 'failed', 'interrupted', 'empty_completion', 'external_model', 'opted_out', 'duplicate_retry', 'unscored', 'no_variance', 'group_incomplete', 'group_already_trained', 'too_stale', 'too_long', 'truncated', 'no_baseline', 'reshaped', 'erased')) NOT VALID;
