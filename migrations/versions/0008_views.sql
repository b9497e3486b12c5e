-- The views of 0007 with one column more, erased_at, behind all others.

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
    e.identified_by, e.key_id, e.request_sha256, e.num_retries, e.prompt_index,
    e.version IS NULL AS is_external,
    jsonb_array_length(jsonb_path_query_array(e.response, '$.tool_calls[*]'))
        + jsonb_array_length(jsonb_path_query_array(e.response, '$.content[*] ? (@.type == "tool_use")'))
        + jsonb_array_length(jsonb_path_query_array(e.response, '$.output[*] ? (@.type == "function_call")'))
        AS num_tool_calls,
    e.error ->> 'code' AS error_code,
    e.num_messages,
    e.request -> 'metadata' AS metadata,
    t.end_user, t.group_id, t.external_id, k.name AS key_name, e.erased_at
FROM public.exchanges AS e
LEFT JOIN public.projects AS p ON p.id = e.project_id
LEFT JOIN public.policies AS policy ON policy.id = e.policy_id
LEFT JOIN public.trajectories AS t ON t.id = e.trajectory_id
LEFT JOIN public.api_keys AS k ON k.id = e.key_id;

COMMENT ON COLUMN v1.exchanges.erased_at IS 'When it was erased: its payload is gone, what the mathematics need is left; NULL = it was not.';

CREATE OR REPLACE VIEW v1.trajectories AS
SELECT
    t.id, p.name AS project, policy.name AS policy, t.group_id, t.external_id, t.identified_by, t.choice_index,
    t.metadata, t.end_user,
    turns.num_exchanges, turns.num_trainable, turns.first_version, turns.last_version,
    turns.num_prompt_tokens, turns.num_completion_tokens, turns.started_at, turns.last_exchange_at,
    rewards.reward, rewards.num_rewards,
    EXISTS (SELECT FROM public.step_samples AS s WHERE s.trajectory_id = t.id AND s.is_used) AS is_trained,
    t.created_at,
    turns.num_completed, turns.num_retries, turns.num_external, turns.total_seconds,
    rewards.first_rewarded_at, rewards.last_rewarded_at,
    (
        SELECT coalesce(e.messages #>> '{-1,content}', e.messages ->> -1)
        FROM public.exchanges AS e WHERE e.trajectory_id = t.id ORDER BY e.id LIMIT 1
    ) AS asked,
    (
        SELECT e.completion_text FROM public.exchanges AS e WHERE e.trajectory_id = t.id ORDER BY e.id DESC LIMIT 1
    ) AS answered,
    t.erased_at
FROM public.trajectories AS t
LEFT JOIN public.projects AS p ON p.id = t.project_id
LEFT JOIN public.policies AS policy ON policy.id = t.policy_id
LEFT JOIN LATERAL (
    SELECT
        count(*) AS num_exchanges,
        count(*) FILTER (WHERE e.is_trainable) AS num_trainable,
        min(e.version) AS first_version,
        max(e.version) AS last_version,
        coalesce(sum(e.num_prompt_tokens), 0) AS num_prompt_tokens,
        coalesce(sum(e.num_completion_tokens), 0) AS num_completion_tokens,
        min(e.started_at) AS started_at,
        max(e.started_at) AS last_exchange_at,
        count(*) FILTER (WHERE e.status = 'completed') AS num_completed,
        count(*) FILTER (WHERE e.num_retries > 0) AS num_retries,
        count(*) FILTER (WHERE e.version IS NULL) AS num_external,
        sum(e.total_seconds) AS total_seconds
    FROM public.exchanges AS e
    WHERE e.trajectory_id = t.id
) AS turns ON true
LEFT JOIN LATERAL (
    SELECT
        avg(r.value) AS reward,
        count(*) AS num_rewards,
        min(r.created_at) AS first_rewarded_at,
        max(r.created_at) AS last_rewarded_at
    FROM v1.rewards AS r
    WHERE r.trajectory_id = t.id AND r.is_counted
) AS rewards ON true;

COMMENT ON COLUMN v1.trajectories.erased_at IS 'When it was erased: its payload is gone, what the mathematics need is left; NULL = it was not.';
