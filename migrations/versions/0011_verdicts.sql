-- What became of each exchange and trajectory, told from what steps, groups and judgements say (docs/decisions/0019).

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
    t.end_user, t.group_id, t.external_id, k.name AS key_name, e.erased_at,
    e.is_explored, e.is_shadow,
    split_part(became.word, ' ', 1) AS verdict,
    nullif(split_part(became.word, ' ', 2), '') AS verdict_reason
FROM public.exchanges AS e
LEFT JOIN public.projects AS p ON p.id = e.project_id
LEFT JOIN public.policies AS policy ON policy.id = e.policy_id
LEFT JOIN public.trajectories AS t ON t.id = e.trajectory_id
LEFT JOIN public.api_keys AS k ON k.id = e.key_id
LEFT JOIN public.groups AS g ON g.id = t.group_id
LEFT JOIN LATERAL (
    SELECT
        CASE
            WHEN bool_or(x.is_used AND s.state = 'published') THEN 'trained'
            WHEN NOT e.is_trainable THEN 'left_out ' || e.untrainable_reason
            WHEN g.state = 'claimed' OR bool_or(x.is_used AND s.state IN ('claimed', 'built', 'updated', 'saved')) THEN 'waiting claimed'
            WHEN g.state IN ('trained', 'skipped') THEN 'left_out ' || coalesce(
                (array_agg(x.reason ORDER BY x.step_id DESC))[1],
                g.reason,
                'group_already_trained'
            )
            ELSE 'waiting ' || CASE (
                SELECT bool_or(r.is_final) FROM v1.rewards AS r
                WHERE r.trajectory_id = e.trajectory_id AND r.is_counted AND (r.exchange_id IS NULL OR r.exchange_id = e.id)
            ) WHEN true THEN 'group_open' WHEN false THEN 'partial' ELSE 'unscored' END
        END AS word
    FROM public.step_samples AS x
    JOIN public.training_steps AS s ON s.id = x.step_id
    WHERE x.exchange_id = e.id
) AS became ON true;

COMMENT ON COLUMN v1.exchanges.is_explored IS 'Whether temperature 0 was asked for and `temperature` was sampled with instead.';
COMMENT ON COLUMN v1.exchanges.is_shadow IS 'Whether the worker sampled it: no user ever saw it.';
COMMENT ON COLUMN v1.exchanges.verdict IS 'What became of it: trained, waiting or left_out. It is computed when it is selected.';
COMMENT ON COLUMN v1.exchanges.verdict_reason IS 'Why it was left out, or what it waits for; NULL = it was trained. The glossary explains each word.';

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
    t.erased_at,
    t.route, t.is_shadow, rewards.is_final, used.reward AS reward_when_trained,
    used.reward IS NOT NULL AND (rewards.reward IS NULL OR abs(rewards.reward - used.reward) > 1e-9) AS is_reward_changed,
    turns.num_trainable > 0 AS is_trainable,
    CASE WHEN turns.num_trainable = 0 THEN (
        SELECT mode() WITHIN GROUP (ORDER BY e.untrainable_reason) FROM public.exchanges AS e WHERE e.trajectory_id = t.id
    ) END AS untrainable_reason,
    split_part(became.word, ' ', 1) AS verdict,
    nullif(split_part(became.word, ' ', 2), '') AS verdict_reason
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
    -- one row at most: an aggregate of it is left out where nobody asks for it
    SELECT
        max(r.reward) AS reward,
        coalesce(max(r.num_rewards), 0) AS num_rewards,
        bool_or(r.is_final) AS is_final,
        max(r.first_rewarded_at) AS first_rewarded_at,
        max(r.last_rewarded_at) AS last_rewarded_at
    FROM v1.trajectory_rewards AS r
    WHERE r.trajectory_id = t.id
) AS rewards ON true
LEFT JOIN LATERAL (
    SELECT (array_agg(coalesce(s.trajectory_reward, s.reward) ORDER BY s.step_id DESC))[1] AS reward
    FROM public.step_samples AS s
    WHERE s.trajectory_id = t.id AND s.is_used
) AS used ON true
LEFT JOIN public.groups AS g ON g.id = t.group_id
LEFT JOIN LATERAL (
    SELECT
        CASE
            WHEN bool_or(x.is_used AND s.state = 'published') THEN 'trained'
            WHEN turns.num_trainable = 0 THEN 'left_out ' || coalesce((
                SELECT mode() WITHIN GROUP (ORDER BY e.untrainable_reason) FROM public.exchanges AS e
                WHERE e.trajectory_id = t.id
            ), 'group_incomplete')
            WHEN g.state = 'claimed' OR bool_or(x.is_used AND s.state IN ('claimed', 'built', 'updated', 'saved')) THEN 'waiting claimed'
            WHEN g.state IN ('trained', 'skipped') THEN 'left_out ' || coalesce(
                (
                    SELECT mode() WITHIN GROUP (ORDER BY y.reason)
                    FROM public.step_samples AS y JOIN public.exchanges AS e ON e.id = y.exchange_id AND e.is_trainable
                    WHERE y.trajectory_id = t.id AND y.step_id = (array_agg(x.step_id ORDER BY x.step_id DESC))[1]
                ),
                g.reason,
                'group_already_trained'
            )
            ELSE 'waiting ' || CASE (
                SELECT bool_or(r.is_final) FROM v1.rewards AS r
                WHERE r.trajectory_id = t.id AND r.is_counted
            ) WHEN true THEN 'group_open' WHEN false THEN 'partial' ELSE 'unscored' END
        END AS word
    FROM public.step_samples AS x
    JOIN public.training_steps AS s ON s.id = x.step_id
    WHERE x.trajectory_id = t.id
) AS became ON true;

COMMENT ON COLUMN v1.trajectories.reward IS 'Its reward (v1.trajectory_rewards); NULL = not scored.';
COMMENT ON COLUMN v1.trajectories.route IS 'Its route: a digest of endpoint, template of its first prompt and tools, or of the name that the caller gave.';
COMMENT ON COLUMN v1.trajectories.is_shadow IS 'Whether the worker sampled it as a sibling of another: no user ever saw it.';
COMMENT ON COLUMN v1.trajectories.is_final IS 'Whether one of the reward events that count is final; NULL = not scored.';
COMMENT ON COLUMN v1.trajectories.reward_when_trained IS 'Its reward as the newest step that used it read it; NULL = none did.';
COMMENT ON COLUMN v1.trajectories.is_reward_changed IS 'Whether it was judged differently since then: training is not undone.';
COMMENT ON COLUMN v1.trajectories.is_trainable IS 'Whether the trainer may use one of its exchanges.';
COMMENT ON COLUMN v1.trajectories.untrainable_reason IS 'Why it may use none of them: the reason that most of them have.';
COMMENT ON COLUMN v1.trajectories.verdict IS 'What became of it: trained, waiting or left_out. It is computed when it is selected.';
COMMENT ON COLUMN v1.trajectories.verdict_reason IS 'Why it was left out, or what it waits for; NULL = it was trained. The glossary explains each word.';

CREATE OR REPLACE VIEW v1.verdicts AS
SELECT
    e.project, e.policy, CAST(e.started_at AT TIME ZONE 'UTC' AS date) AS day, e.verdict, e.verdict_reason AS reason,
    count(*) AS num_exchanges, coalesce(sum(e.num_completion_tokens), 0) AS num_completion_tokens
FROM v1.exchanges AS e
GROUP BY e.project, e.policy, CAST(e.started_at AT TIME ZONE 'UTC' AS date), e.verdict, e.verdict_reason;

COMMENT ON VIEW v1.verdicts IS 'How many exchanges were trained, wait, or were left out, and why. It reads them all: ask v1.exchanges for a few days.';
COMMENT ON COLUMN v1.verdicts.project IS 'Name of the tenant.';
COMMENT ON COLUMN v1.verdicts.policy IS 'Name of the policy.';
COMMENT ON COLUMN v1.verdicts.day IS 'Day of the request (UTC).';
COMMENT ON COLUMN v1.verdicts.verdict IS 'What became of them: trained, waiting or left_out.';
COMMENT ON COLUMN v1.verdicts.reason IS 'Why they were left out, or what they wait for; NULL = trained.';
COMMENT ON COLUMN v1.verdicts.num_exchanges IS 'How many.';
COMMENT ON COLUMN v1.verdicts.num_completion_tokens IS 'Their sampled tokens.';

CREATE OR REPLACE VIEW v1.judge_runs AS
SELECT
    r.id, p.name AS project, policy.name AS policy, r.group_id, r.model, r.state, r.reason, r.num_votes, r.num_calls,
    r.num_prompt_tokens, r.num_completion_tokens, r.cost, r.scores, r.created_at, r.finished_at
FROM public.judge_runs AS r
JOIN public.projects AS p ON p.id = r.project_id
JOIN public.policies AS policy ON policy.id = r.policy_id;

COMMENT ON VIEW v1.judge_runs IS 'Groups that a judge model was asked to score, and what that cost. What it said of each member stands in v1.rewards.';
COMMENT ON COLUMN v1.judge_runs.id IS 'UUIDv7 of the run.';
COMMENT ON COLUMN v1.judge_runs.project IS 'Name of the tenant.';
COMMENT ON COLUMN v1.judge_runs.policy IS 'Name of the policy whose group it is.';
COMMENT ON COLUMN v1.judge_runs.group_id IS 'The group (v1.groups).';
COMMENT ON COLUMN v1.judge_runs.model IS 'The judge, as LiteLLM names it.';
COMMENT ON COLUMN v1.judge_runs.state IS 'running, finished, failed or refused.';
COMMENT ON COLUMN v1.judge_runs.reason IS 'Why it failed or was refused, in one sentence.';
COMMENT ON COLUMN v1.judge_runs.num_votes IS 'How often it was asked to score the group.';
COMMENT ON COLUMN v1.judge_runs.num_calls IS 'Calls made, re-judging included; while it runs, the most it may make.';
COMMENT ON COLUMN v1.judge_runs.num_prompt_tokens IS 'As the provider counted; while it runs, what it has reserved.';
COMMENT ON COLUMN v1.judge_runs.num_completion_tokens IS 'Likewise.';
COMMENT ON COLUMN v1.judge_runs.cost IS 'Likewise, in US dollars by LiteLLM''s price list; NULL = it knows no price.';
COMMENT ON COLUMN v1.judge_runs.scores IS 'Votes, mean and spread (0 to 1) by trajectory id, the seed, who was unscored, who was shown as a scale.';
COMMENT ON COLUMN v1.judge_runs.created_at IS 'When it began, or was refused.';
COMMENT ON COLUMN v1.judge_runs.finished_at IS 'When it ended.';
