-- Schema v1, the interface for SQL users: traffic and rewards.

CREATE SCHEMA v1;

COMMENT ON SCHEMA v1 IS 'The ledger for SQL users: stable views, documented in docs/sql.md.';

CREATE VIEW v1.rewards AS
SELECT
    e.id, p.name AS project, e.target, e.trajectory_id, e.exchange_id, e.metric, e.value, e.content, e.comment,
    e.source, e.is_retraction, e.observed_at, e.created_at,
    e.not_counted_reason IS NULL AS is_counted,
    e.not_counted_reason
FROM (
    SELECT
        r.*,
        CASE
            WHEN r.trajectory_id IS NULL THEN 'early'
            WHEN r.metric <> 'reward' THEN 'other_metric'
            WHEN r.id <> first_value(r.id) OVER judgement THEN 'superseded'
            WHEN r.is_retraction THEN 'retraction'
            WHEN r.value IS NULL THEN 'no_value'
            WHEN r.value < policy.reward_min OR r.value > policy.reward_max THEN 'out_of_range'
        END AS not_counted_reason
    FROM public.reward_events AS r
    LEFT JOIN public.trajectories AS t ON t.id = r.trajectory_id
    LEFT JOIN public.policies AS policy ON policy.id = t.policy_id
    WINDOW judgement AS (
        PARTITION BY r.trajectory_id, r.exchange_id, r.metric, r.source ORDER BY r.id DESC
    )
) AS e
JOIN public.projects AS p ON p.id = e.project_id;

COMMENT ON VIEW v1.rewards IS 'Every reward event, and whether it counts towards its trajectory''s reward.';
COMMENT ON COLUMN v1.rewards.id IS 'UUIDv7; its time is the partition key.';
COMMENT ON COLUMN v1.rewards.project IS 'Name of the tenant that posted it.';
COMMENT ON COLUMN v1.rewards.target IS 'The id posted, ours in one spelling (#k: choice k): a trajectory id, a reply''s id, or the caller''s own id.';
COMMENT ON COLUMN v1.rewards.trajectory_id IS 'The trajectory it judges; NULL while it is early (its row is not visible yet).';
COMMENT ON COLUMN v1.rewards.exchange_id IS 'The exchange it judges, where the reply''s id was used.';
COMMENT ON COLUMN v1.rewards.metric IS '`reward` counts towards the advantage; other names are stored.';
COMMENT ON COLUMN v1.rewards.value IS 'The judgement; true is 1, false is 0. NULL for a retraction, a comment or a demonstration.';
COMMENT ON COLUMN v1.rewards.content IS 'The text of a comment, the messages of a demonstration.';
COMMENT ON COLUMN v1.rewards.comment IS 'A remark beside the value.';
COMMENT ON COLUMN v1.rewards.source IS 'Who judges, such as user, program or judge.';
COMMENT ON COLUMN v1.rewards.is_retraction IS 'Takes back what this source said before for this metric.';
COMMENT ON COLUMN v1.rewards.observed_at IS 'When the judgement was made.';
COMMENT ON COLUMN v1.rewards.created_at IS 'When the row was written (UTC).';
COMMENT ON COLUMN v1.rewards.is_counted IS 'Whether it is part of its trajectory''s reward, which is the mean of those that are.';
COMMENT ON COLUMN v1.rewards.not_counted_reason IS 'early, other_metric, superseded, retraction, no_value or out_of_range; NULL = it counts.';

CREATE VIEW v1.exchanges AS
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
    e.started_at, e.is_trainable, e.untrainable_reason, e.created_at
FROM public.exchanges AS e
JOIN public.projects AS p ON p.id = e.project_id
JOIN public.policies AS policy ON policy.id = e.policy_id;

COMMENT ON VIEW v1.exchanges IS 'Every exchange: one request and one choice of its response.';
COMMENT ON COLUMN v1.exchanges.id IS 'UUIDv7; the call''s id plus the choice index.';
COMMENT ON COLUMN v1.exchanges.trajectory_id IS 'The trajectory it is a turn of.';
COMMENT ON COLUMN v1.exchanges.project IS 'Name of the tenant.';
COMMENT ON COLUMN v1.exchanges.policy IS 'Name of the policy that answered.';
COMMENT ON COLUMN v1.exchanges.version IS 'The policy version that produced it: decided at dispatch, verified against the reply.';
COMMENT ON COLUMN v1.exchanges.model IS 'NAME@version: `model` as the client was told.';
COMMENT ON COLUMN v1.exchanges.request_id IS 'x-request-id of the call.';
COMMENT ON COLUMN v1.exchanges.choice_index IS 'Which choice of its call.';
COMMENT ON COLUMN v1.exchanges.endpoint IS 'The route, such as /v1/chat/completions.';
COMMENT ON COLUMN v1.exchanges.is_streamed IS 'Whether the client asked for a stream.';
COMMENT ON COLUMN v1.exchanges.requested_model IS '`model` as the client wrote it.';
COMMENT ON COLUMN v1.exchanges.answered_model IS '`model` as vLLM answered; NULL if it never did.';
COMMENT ON COLUMN v1.exchanges.client_name IS 'The client''s user agent.';
COMMENT ON COLUMN v1.exchanges.status IS 'completed, cancelled, failed or interrupted.';
COMMENT ON COLUMN v1.exchanges.http_status IS 'The status the client got.';
COMMENT ON COLUMN v1.exchanges.error IS 'The error object, where there was one.';
COMMENT ON COLUMN v1.exchanges.is_delivered IS 'Whether the answer was handed to the client''s connection to its end.';
COMMENT ON COLUMN v1.exchanges.retry_of IS 'The exchange that this call repeats (an SDK''s retry).';
COMMENT ON COLUMN v1.exchanges.turn_type IS 'main or side (served, never trained).';
COMMENT ON COLUMN v1.exchanges.parent_exchange_id IS 'The earlier turn that this row is a delta of; NULL = the row is whole.';
COMMENT ON COLUMN v1.exchanges.num_shared_tokens IS 'How many leading prompt tokens stand in the parent (its prompt, then its completion).';
COMMENT ON COLUMN v1.exchanges.num_shared_messages IS 'How many leading messages stand in the parent (its messages).';
COMMENT ON COLUMN v1.exchanges.messages IS 'The request''s messages after the shared ones, as sent (text made storable, see docs/sql.md).';
COMMENT ON COLUMN v1.exchanges.request IS 'The rest of the request: tools, response_format, metadata and every unknown field.';
COMMENT ON COLUMN v1.exchanges.response IS 'The choice as the client could read it: message or text, tool calls as raw text.';
COMMENT ON COLUMN v1.exchanges.completion_text IS 'The visible text of the completion.';
COMMENT ON COLUMN v1.exchanges.prompt_ids IS 'Prompt token ids after the shared ones, as vLLM returned them.';
COMMENT ON COLUMN v1.exchanges.completion_ids IS 'Sampled token ids, as vLLM returned them.';
COMMENT ON COLUMN v1.exchanges.sampling_logprobs IS 'Logprob of each sampled token at sampling time, natural log.';
COMMENT ON COLUMN v1.exchanges.finish_reason IS 'As vLLM answered.';
COMMENT ON COLUMN v1.exchanges.stop_reason IS 'As vLLM answered: the stop string or token id.';
COMMENT ON COLUMN v1.exchanges.temperature IS 'As applied: the request''s, or the server''s default.';
COMMENT ON COLUMN v1.exchanges.top_p IS 'As requested; NULL = the server''s default.';
COMMENT ON COLUMN v1.exchanges.top_k IS 'As requested; NULL = the server''s default.';
COMMENT ON COLUMN v1.exchanges.max_tokens IS 'max_tokens or max_completion_tokens.';
COMMENT ON COLUMN v1.exchanges.seed IS 'As requested.';
COMMENT ON COLUMN v1.exchanges.num_prompt_tokens IS 'usage.prompt_tokens.';
COMMENT ON COLUMN v1.exchanges.num_completion_tokens IS 'Completion tokens of this choice.';
COMMENT ON COLUMN v1.exchanges.first_token_seconds IS 'From the request''s arrival to the first token.';
COMMENT ON COLUMN v1.exchanges.total_seconds IS 'From the request''s arrival to the last byte from vLLM.';
COMMENT ON COLUMN v1.exchanges.started_at IS 'When the request arrived.';
COMMENT ON COLUMN v1.exchanges.is_trainable IS 'Whether the trainer may use it.';
COMMENT ON COLUMN v1.exchanges.untrainable_reason IS 'Why it may not.';
COMMENT ON COLUMN v1.exchanges.created_at IS 'When the row was written (UTC).';

CREATE VIEW v1.trajectories AS
SELECT
    t.id, p.name AS project, policy.name AS policy, t.group_id, t.external_id, t.identified_by, t.choice_index,
    t.metadata, t.end_user,
    turns.num_exchanges, turns.num_trainable, turns.first_version, turns.last_version,
    turns.num_prompt_tokens, turns.num_completion_tokens, turns.started_at, turns.last_exchange_at,
    rewards.reward, rewards.num_rewards,
    EXISTS (SELECT FROM public.step_samples AS s WHERE s.trajectory_id = t.id AND s.is_used) AS is_trained,
    t.created_at
FROM public.trajectories AS t
JOIN public.projects AS p ON p.id = t.project_id
JOIN public.policies AS policy ON policy.id = t.policy_id
CROSS JOIN LATERAL (
    SELECT
        count(*) AS num_exchanges,
        count(*) FILTER (WHERE e.is_trainable) AS num_trainable,
        min(e.version) AS first_version,
        max(e.version) AS last_version,
        coalesce(sum(e.num_prompt_tokens), 0) AS num_prompt_tokens,
        coalesce(sum(e.num_completion_tokens), 0) AS num_completion_tokens,
        min(e.started_at) AS started_at,
        max(e.started_at) AS last_exchange_at
    FROM public.exchanges AS e
    WHERE e.trajectory_id = t.id
) AS turns
CROSS JOIN LATERAL (
    SELECT avg(r.value) AS reward, count(*) AS num_rewards
    FROM v1.rewards AS r
    WHERE r.trajectory_id = t.id AND r.is_counted
) AS rewards;

COMMENT ON VIEW v1.trajectories IS 'Every trajectory with its reward and the sum of its exchanges.';
COMMENT ON COLUMN v1.trajectories.id IS 'UUIDv7; its time is the partition key.';
COMMENT ON COLUMN v1.trajectories.project IS 'Name of the tenant.';
COMMENT ON COLUMN v1.trajectories.policy IS 'Name of the policy that answered.';
COMMENT ON COLUMN v1.trajectories.group_id IS 'The group, where it has one.';
COMMENT ON COLUMN v1.trajectories.external_id IS 'The caller''s own id for it, if the caller gave one.';
COMMENT ON COLUMN v1.trajectories.identified_by IS 'path, header, metadata, conversation or new.';
COMMENT ON COLUMN v1.trajectories.choice_index IS 'Which choice of an n > 1 call it began as.';
COMMENT ON COLUMN v1.trajectories.metadata IS 'The caller''s metadata of its first call.';
COMMENT ON COLUMN v1.trajectories.end_user IS 'The request''s `user` (or safety identifier), for erasure.';
COMMENT ON COLUMN v1.trajectories.num_exchanges IS 'How many exchanges it has.';
COMMENT ON COLUMN v1.trajectories.num_trainable IS 'How many of them the trainer may use.';
COMMENT ON COLUMN v1.trajectories.first_version IS 'The oldest policy version in it.';
COMMENT ON COLUMN v1.trajectories.last_version IS 'The newest policy version in it.';
COMMENT ON COLUMN v1.trajectories.num_prompt_tokens IS 'Sum of usage.prompt_tokens.';
COMMENT ON COLUMN v1.trajectories.num_completion_tokens IS 'Sum of the completion tokens.';
COMMENT ON COLUMN v1.trajectories.started_at IS 'When its first request arrived.';
COMMENT ON COLUMN v1.trajectories.last_exchange_at IS 'When its newest request arrived.';
COMMENT ON COLUMN v1.trajectories.reward IS 'Mean of the reward events that count (v1.rewards); NULL = not scored.';
COMMENT ON COLUMN v1.trajectories.num_rewards IS 'How many reward events count.';
COMMENT ON COLUMN v1.trajectories.is_trained IS 'Whether a step used any of its exchanges.';
COMMENT ON COLUMN v1.trajectories.created_at IS 'When the row was written (UTC).';

CREATE VIEW v1.groups AS
SELECT
    g.id, p.name AS project, policy.name AS policy, g.kind, g.key, g.sequence, g.size, g.state,
    s.version AS step_version, g.reason,
    members.num_members, members.num_scored, members.reward_mean, members.reward_stddev,
    members.reward_min, members.reward_max,
    members.num_scored >= 2 AND members.reward_min < members.reward_max AS has_signal,
    g.last_member_at, g.created_at
FROM public.groups AS g
JOIN public.projects AS p ON p.id = g.project_id
JOIN public.policies AS policy ON policy.id = g.policy_id
LEFT JOIN public.training_steps AS s ON s.id = g.step_id
CROSS JOIN LATERAL (
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
) AS members;

COMMENT ON VIEW v1.groups IS 'Every group: trajectories that attempted the same task, and whether they differ in reward.';
COMMENT ON COLUMN v1.groups.id IS 'UUIDv7 of the group.';
COMMENT ON COLUMN v1.groups.project IS 'Name of the tenant.';
COMMENT ON COLUMN v1.groups.policy IS 'Name of the policy that answered.';
COMMENT ON COLUMN v1.groups.kind IS 'explicit (caller''s id), choices (n of one call), prompt (same first prompt).';
COMMENT ON COLUMN v1.groups.key IS 'The caller''s id, the call''s id, or prompt hash : window : versions.';
COMMENT ON COLUMN v1.groups.sequence IS 'Counts groups of one key: a prompt group that was claimed is continued by the next.';
COMMENT ON COLUMN v1.groups.size IS 'How many trajectories it will have, where that was declared.';
COMMENT ON COLUMN v1.groups.state IS 'open, claimed, trained or skipped.';
COMMENT ON COLUMN v1.groups.step_version IS 'The version that the step which took it makes.';
COMMENT ON COLUMN v1.groups.reason IS 'Why it was skipped.';
COMMENT ON COLUMN v1.groups.num_members IS 'How many trajectories it has.';
COMMENT ON COLUMN v1.groups.num_scored IS 'How many of them have a reward.';
COMMENT ON COLUMN v1.groups.reward_mean IS 'Mean reward of the scored ones.';
COMMENT ON COLUMN v1.groups.reward_stddev IS 'Sample standard deviation of their rewards.';
COMMENT ON COLUMN v1.groups.reward_min IS 'Smallest reward.';
COMMENT ON COLUMN v1.groups.reward_max IS 'Largest reward.';
COMMENT ON COLUMN v1.groups.has_signal IS 'At least two are scored and not all alike: only such a group can teach.';
COMMENT ON COLUMN v1.groups.last_member_at IS 'When its newest member was recorded (Postgres'' clock).';
COMMENT ON COLUMN v1.groups.created_at IS 'When the row was written (UTC).';
