-- What identification and retries need to know of a call. Metadata only: no row is read or rewritten.

ALTER TABLE exchanges
    ADD COLUMN IF NOT EXISTS key_id UUID,
    ADD COLUMN IF NOT EXISTS request_sha256 BYTEA,
    ADD COLUMN IF NOT EXISTS num_retries INTEGER DEFAULT 0 NOT NULL,
    ADD COLUMN IF NOT EXISTS identified_by TEXT,
    ADD COLUMN IF NOT EXISTS conversation_sha256 BYTEA,
    ADD COLUMN IF NOT EXISTS continues_sha256 BYTEA,
    ADD COLUMN IF NOT EXISTS prompt_index INTEGER DEFAULT 0 NOT NULL;

ALTER TABLE exchanges DROP CONSTRAINT IF EXISTS ck_exchanges_identified_by_known;
ALTER TABLE exchanges ADD CONSTRAINT ck_exchanges_identified_by_known
    CHECK (identified_by IN ('path', 'header', 'metadata', 'conversation', 'new')) NOT VALID;

COMMENT ON COLUMN exchanges.key_id IS 'The API key that asked; NULL = none was needed.';
COMMENT ON COLUMN exchanges.request_sha256 IS 'Digest of the request''s body as it arrived.';
COMMENT ON COLUMN exchanges.num_retries IS 'x-stainless-retry-count: above 0, the SDK says that it repeats an earlier call.';
COMMENT ON COLUMN exchanges.identified_by IS 'How its trajectory was found: path, header, metadata, conversation or new; NULL = before 0003.';
COMMENT ON COLUMN exchanges.conversation_sha256 IS 'Digest of its messages and its answer, as the next turn would repeat them.';
COMMENT ON COLUMN exchanges.continues_sha256 IS 'The conversation that it goes on with, where that was looked for when it was recorded.';
COMMENT ON COLUMN exchanges.prompt_index IS 'Which prompt of its call it answers (legacy completions take several).';

CREATE OR REPLACE VIEW v1.exchanges AS
SELECT
    e.id, e.trajectory_id, p.name AS project, policy.name AS policy, e.version,
    policy.name || '@' || e.version AS model,
    e.request_id, e.choice_index, e.endpoint, e.is_streamed, e.requested_model, e.answered_model, e.client_name,
    e.status, e.http_status, e.error, e.is_delivered, e.retry_of, e.turn_type,
    e.parent_exchange_id, e.num_shared_tokens, e.num_shared_messages,
    e.messages, e.request, e.response, e.completion_text, e.prompt_ids, e.completion_ids,
    e.logprobs AS sampling_logprobs,
    e.finish_reason, e.stop_reason, e.temperature, e.top_p, e.top_k, e.max_tokens, e.seed,
    e.num_prompt_tokens, e.num_completion_tokens, e.first_token_seconds, e.total_seconds,
    e.started_at, e.is_trainable, e.untrainable_reason, e.created_at,
    e.identified_by, e.key_id, e.request_sha256, e.num_retries, e.prompt_index
FROM public.exchanges AS e
JOIN public.projects AS p ON p.id = e.project_id
JOIN public.policies AS policy ON policy.id = e.policy_id;

COMMENT ON COLUMN v1.exchanges.identified_by IS 'How its trajectory was found: path, header, metadata, conversation or new; NULL = before 0003.';
COMMENT ON COLUMN v1.exchanges.key_id IS 'The API key that asked; NULL = none was needed.';
COMMENT ON COLUMN v1.exchanges.request_sha256 IS 'Digest of the request''s body as it arrived.';
COMMENT ON COLUMN v1.exchanges.num_retries IS 'x-stainless-retry-count: above 0, the SDK says that it repeats an earlier call.';
COMMENT ON COLUMN v1.exchanges.prompt_index IS 'Which prompt of its call it answers (legacy completions take several).';
