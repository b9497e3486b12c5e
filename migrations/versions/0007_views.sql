-- Schema v1 for analysts: new columns at the end of each view, and parts that nobody asked for are not computed.

ALTER TABLE reward_events ADD COLUMN IF NOT EXISTS key_id UUID;
COMMENT ON COLUMN reward_events.key_id IS 'The API key that posted it; NULL = none was needed.';

CREATE OR REPLACE FUNCTION v1.first_id_at(moment TIMESTAMP WITH TIME ZONE) RETURNS UUID
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT CAST(lpad(to_hex(CAST(floor(extract(epoch FROM moment) * 1000) AS bigint)), 12, '0') || repeat('0', 20) AS uuid) $$;

COMMENT ON FUNCTION v1.first_id_at(TIMESTAMP WITH TIME ZONE) IS 'The smallest id of that time: `id >= v1.first_id_at(now() - interval ''30 days'')` reads only those months.';

-- is_counted says the same as not_counted_reason IS NULL, in single conditions, which the planner can estimate.
-- `surely`: what every policy of the project accepts; only a value outside of it needs its trajectory's policy.
CREATE OR REPLACE VIEW v1.rewards AS
SELECT
    r.id, p.name AS project, r.target, r.trajectory_id, r.exchange_id, r.metric, r.value, r.content, r.comment,
    r.source, r.is_retraction, r.observed_at, r.created_at,
    r.trajectory_id IS NOT NULL AND r.metric = 'reward' AND NOT r.is_retraction AND r.value IS NOT NULL
        AND NOT EXISTS (
            SELECT FROM public.reward_events AS later
            WHERE later.trajectory_id = r.trajectory_id AND later.id > r.id
                AND later.exchange_id IS NOT DISTINCT FROM r.exchange_id
                AND later.metric = r.metric AND later.source = r.source
        )
        AND ((r.value >= surely.reward_min AND r.value <= surely.reward_max) IS TRUE OR NOT EXISTS (
            SELECT FROM public.trajectories AS judged
            JOIN public.policies AS accepting ON accepting.id = judged.policy_id
            WHERE judged.id = r.trajectory_id
                AND (r.value < accepting.reward_min OR r.value > accepting.reward_max)
        )) AS is_counted,
    CASE
        WHEN r.trajectory_id IS NULL THEN 'early'
        WHEN r.metric <> 'reward' THEN 'other_metric'
        WHEN EXISTS (
            SELECT FROM public.reward_events AS later
            WHERE later.trajectory_id = r.trajectory_id AND later.id > r.id
                AND later.exchange_id IS NOT DISTINCT FROM r.exchange_id
                AND later.metric = r.metric AND later.source = r.source
        ) THEN 'superseded'
        WHEN r.is_retraction THEN 'retraction'
        WHEN r.value IS NULL THEN 'no_value'
        WHEN (r.value >= surely.reward_min AND r.value <= surely.reward_max) IS NOT TRUE AND EXISTS (
            SELECT FROM public.trajectories AS judged
            JOIN public.policies AS accepting ON accepting.id = judged.policy_id
            WHERE judged.id = r.trajectory_id
                AND (r.value < accepting.reward_min OR r.value > accepting.reward_max)
        ) THEN 'out_of_range'
    END AS not_counted_reason,
    policy.name AS policy, r.idempotency_id, r.key_id, k.name AS key_name
FROM public.reward_events AS r
LEFT JOIN (
    SELECT project_id, max(reward_min) AS reward_min, min(reward_max) AS reward_max
    FROM public.policies GROUP BY project_id
) AS surely ON surely.project_id = r.project_id
LEFT JOIN public.projects AS p ON p.id = r.project_id
LEFT JOIN public.trajectories AS t ON t.id = r.trajectory_id
LEFT JOIN public.policies AS policy ON policy.id = t.policy_id
LEFT JOIN public.api_keys AS k ON k.id = r.key_id;

COMMENT ON COLUMN v1.rewards.policy IS 'Name of the policy whose trajectory it judges; NULL while it is early.';
COMMENT ON COLUMN v1.rewards.idempotency_id IS 'The caller''s id for this post.';
COMMENT ON COLUMN v1.rewards.key_id IS 'The API key that posted it; NULL = none was needed.';
COMMENT ON COLUMN v1.rewards.key_name IS 'What the owner of that key calls it.';

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
    t.end_user, t.group_id, t.external_id, k.name AS key_name
FROM public.exchanges AS e
LEFT JOIN public.projects AS p ON p.id = e.project_id
LEFT JOIN public.policies AS policy ON policy.id = e.policy_id
LEFT JOIN public.trajectories AS t ON t.id = e.trajectory_id
LEFT JOIN public.api_keys AS k ON k.id = e.key_id;

COMMENT ON COLUMN v1.exchanges.is_external IS 'Whether another than a version of the policy answered: teacher data.';
COMMENT ON COLUMN v1.exchanges.num_tool_calls IS 'How many tool calls the answer holds; NULL without an answer.';
COMMENT ON COLUMN v1.exchanges.error_code IS 'The code in the error object.';
COMMENT ON COLUMN v1.exchanges.num_messages IS 'How many messages the request had, the shared ones included.';
COMMENT ON COLUMN v1.exchanges.metadata IS 'The caller''s metadata of this call.';
COMMENT ON COLUMN v1.exchanges.end_user IS 'The `user` (or safety identifier) of its trajectory.';
COMMENT ON COLUMN v1.exchanges.group_id IS 'The group of its trajectory, where it has one.';
COMMENT ON COLUMN v1.exchanges.external_id IS 'The caller''s own id for its trajectory, if the caller gave one.';
COMMENT ON COLUMN v1.exchanges.key_name IS 'What the owner of the API key that asked calls it.';

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
    ) AS answered
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

COMMENT ON COLUMN v1.trajectories.num_completed IS 'How many of its exchanges were answered to the end.';
COMMENT ON COLUMN v1.trajectories.num_retries IS 'How many of them were an SDK''s retries.';
COMMENT ON COLUMN v1.trajectories.num_external IS 'How many of them an external provider answered.';
COMMENT ON COLUMN v1.trajectories.total_seconds IS 'Sum of the seconds that its exchanges took.';
COMMENT ON COLUMN v1.trajectories.first_rewarded_at IS 'When the first of the reward events that count was written.';
COMMENT ON COLUMN v1.trajectories.last_rewarded_at IS 'When the newest of the reward events that count was written.';
COMMENT ON COLUMN v1.trajectories.asked IS 'The last message of its first request, as text.';
COMMENT ON COLUMN v1.trajectories.answered IS 'The visible text of its newest exchange.';

CREATE OR REPLACE VIEW v1.groups AS
SELECT
    g.id, p.name AS project, policy.name AS policy, g.kind, g.key, g.sequence, g.size, g.state,
    s.version AS step_version, g.reason,
    members.num_members, members.num_scored, members.reward_mean, members.reward_stddev,
    members.reward_min, members.reward_max,
    members.num_scored >= 2 AND members.reward_min < members.reward_max AS has_signal,
    g.last_member_at, g.created_at, g.step_id,
    (
        SELECT coalesce(e.messages #>> '{-1,content}', e.messages ->> -1)
        FROM public.trajectories AS t
        JOIN public.exchanges AS e ON e.trajectory_id = t.id
        WHERE t.group_id = g.id
        ORDER BY e.id
        LIMIT 1
    ) AS asked
FROM public.groups AS g
LEFT JOIN public.projects AS p ON p.id = g.project_id
LEFT JOIN public.policies AS policy ON policy.id = g.policy_id
LEFT JOIN public.training_steps AS s ON s.id = g.step_id
LEFT JOIN LATERAL (
    SELECT
        count(*) AS num_members,
        count(scored.reward) AS num_scored,
        avg(scored.reward) AS reward_mean,
        stddev_samp(scored.reward) AS reward_stddev,
        min(scored.reward) AS reward_min,
        max(scored.reward) AS reward_max
    FROM public.trajectories AS t
    CROSS JOIN LATERAL (
        SELECT avg(r.value) AS reward FROM v1.rewards AS r WHERE r.trajectory_id = t.id AND r.is_counted
    ) AS scored
    WHERE t.group_id = g.id
) AS members ON true;

COMMENT ON COLUMN v1.groups.step_id IS 'The step that claimed, trained or skipped it.';
COMMENT ON COLUMN v1.groups.asked IS 'The last message of the first request of its first trajectory, as text.';

CREATE OR REPLACE VIEW v1.versions AS
SELECT
    p.name AS project, policy.name AS policy, v.version, policy.name || '@' || v.version AS model,
    v.parent_version, v.state, v.version = policy.live_version AS is_live, policy.base_model,
    v.adapter_path, v.adapter_sha256, v.published_at, v.created_at, policy.reward_min, policy.reward_max
FROM public.policy_versions AS v
JOIN public.policies AS policy ON policy.id = v.policy_id
JOIN public.projects AS p ON p.id = policy.project_id;

COMMENT ON COLUMN v1.versions.reward_min IS 'Smallest reward that its policy accepts.';
COMMENT ON COLUMN v1.versions.reward_max IS 'Largest reward that its policy accepts.';

CREATE OR REPLACE VIEW v1.lineage AS
SELECT
    p.name AS project, policy.name AS policy, s.version, x.step_id, s.state AS step_state, x.exchange_id,
    x.trajectory_id, x.group_id, s.parent_version - x.staleness AS sample_version, x.staleness, x.reward, x.baseline,
    x.baseline_kind, x.advantage, x.num_completion_tokens, x.is_used, x.reason,
    s.created_at AS step_created_at, s.finished_at AS step_finished_at
FROM public.step_samples AS x
JOIN public.training_steps AS s ON s.id = x.step_id
JOIN public.policies AS policy ON policy.id = s.policy_id
JOIN public.projects AS p ON p.id = policy.project_id;

COMMENT ON COLUMN v1.lineage.step_created_at IS 'When the step began.';
COMMENT ON COLUMN v1.lineage.step_finished_at IS 'When the step was published, failed or skipped.';
