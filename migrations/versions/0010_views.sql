-- The views of 0007 with what rewards and groups know more, behind all other columns; those of 0008 follow in 0011.

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
    ) AS asked,
    g.route, g.reward_mean AS baseline_mean, g.num_scored AS num_baseline_samples,
    members.num_final, members.num_shadow
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
        max(scored.reward) AS reward_max,
        count(*) FILTER (WHERE scored.is_final) AS num_final,
        count(*) FILTER (WHERE t.is_shadow) AS num_shadow
    FROM public.trajectories AS t
    LEFT JOIN LATERAL (
        -- aggregates of one row at most: without them all events would be aggregated, and then joined
        SELECT max(r.reward) AS reward, bool_or(r.is_final) AS is_final
        FROM v1.trajectory_rewards AS r
        WHERE r.trajectory_id = t.id
    ) AS scored ON true
    WHERE t.group_id = g.id
) AS members ON true;

CREATE OR REPLACE VIEW v1.lineage AS
SELECT
    p.name AS project, policy.name AS policy, s.version, x.step_id, s.state AS step_state, x.exchange_id,
    x.trajectory_id, x.group_id, s.parent_version - x.staleness AS sample_version, x.staleness, x.reward, x.baseline,
    x.baseline_kind, x.advantage, x.num_completion_tokens, x.is_used, x.reason,
    s.created_at AS step_created_at, s.finished_at AS step_finished_at,
    x.trajectory_reward, x.reward_event_ids, x.num_baseline_samples
FROM public.step_samples AS x
JOIN public.training_steps AS s ON s.id = x.step_id
JOIN public.policies AS policy ON policy.id = s.policy_id
JOIN public.projects AS p ON p.id = policy.project_id;

COMMENT ON COLUMN v1.groups.kind IS 'explicit (caller''s id), choices (n of one call), prompt (same first prompt) or comparison.';
COMMENT ON COLUMN v1.groups.has_signal IS 'At least two are scored and not all alike: it teaches by itself. A lone score may teach by its route''s running baseline.';
COMMENT ON COLUMN v1.groups.route IS 'The route of its first member: what its members have in common beside the task.';
COMMENT ON COLUMN v1.groups.baseline_mean IS 'Mean reward of its members when it was trained: the baseline of late ones.';
COMMENT ON COLUMN v1.groups.num_baseline_samples IS 'How many rewards that mean is of.';
COMMENT ON COLUMN v1.groups.num_final IS 'How many of its members have a final reward.';
COMMENT ON COLUMN v1.groups.num_shadow IS 'How many of its members the worker sampled.';
COMMENT ON COLUMN v1.lineage.reward IS 'Its reward as the step read it: its own, else its trajectory''s; NULL = unscored.';
COMMENT ON COLUMN v1.lineage.trajectory_reward IS 'The reward of its whole trajectory, as the step read it.';
COMMENT ON COLUMN v1.lineage.reward_event_ids IS 'The reward events that `reward` was made of.';
COMMENT ON COLUMN v1.lineage.num_baseline_samples IS 'How many rewards the baseline is made of.';

CREATE OR REPLACE VIEW v1.sibling_runs AS
SELECT
    r.id, p.name AS project, policy.name AS policy, r.trajectory_id, r.exchange_id, r.group_id, r.sibling_ids, r.state,
    r.reason, r.num_attempts, r.num_tokens, r.next_at, r.finished_at, r.created_at
FROM public.sibling_runs AS r
JOIN public.policies AS policy ON policy.id = r.policy_id
JOIN public.projects AS p ON p.id = r.project_id;

COMMENT ON VIEW v1.sibling_runs IS 'Trajectories that the worker samples siblings for: at most once each.';
COMMENT ON COLUMN v1.sibling_runs.id IS 'UUIDv7 of the run.';
COMMENT ON COLUMN v1.sibling_runs.project IS 'Name of the tenant.';
COMMENT ON COLUMN v1.sibling_runs.policy IS 'Name of the policy.';
COMMENT ON COLUMN v1.sibling_runs.trajectory_id IS 'The user''s trajectory.';
COMMENT ON COLUMN v1.sibling_runs.exchange_id IS 'Its one exchange.';
COMMENT ON COLUMN v1.sibling_runs.group_id IS 'Its group, which the siblings join.';
COMMENT ON COLUMN v1.sibling_runs.sibling_ids IS 'The siblings'' trajectories (and exchanges), sampled or not yet.';
COMMENT ON COLUMN v1.sibling_runs.state IS 'sampling, scoring, finished or dropped.';
COMMENT ON COLUMN v1.sibling_runs.reason IS 'Why it was dropped.';
COMMENT ON COLUMN v1.sibling_runs.num_attempts IS 'Failures in a row, in this state; a crash counts.';
COMMENT ON COLUMN v1.sibling_runs.num_tokens IS 'Tokens of prompts and answers; of what was lost, the most it can have been.';
COMMENT ON COLUMN v1.sibling_runs.next_at IS 'When it is gone on with, at the earliest.';
COMMENT ON COLUMN v1.sibling_runs.finished_at IS 'When it ended; NULL = it did not yet.';
COMMENT ON COLUMN v1.sibling_runs.created_at IS 'When it began (UTC).';
