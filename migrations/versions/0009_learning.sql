-- Rewards and groups: metrics, comparisons, routes and their baselines, judges, plans. No row is read or rewritten here.

CREATE TABLE IF NOT EXISTS metrics (
    policy_id UUID NOT NULL, 
    name TEXT NOT NULL, 
    smallest DOUBLE PRECISION NOT NULL, 
    largest DOUBLE PRECISION NOT NULL, 
    direction TEXT DEFAULT 'higher' NOT NULL, 
    weight DOUBLE PRECISION DEFAULT 1 NOT NULL, 
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, 
    CONSTRAINT pk_metrics PRIMARY KEY (policy_id, name), 
    CONSTRAINT ck_metrics_direction_known CHECK (direction IN ('higher', 'lower')), 
    CONSTRAINT ck_metrics_range_not_empty CHECK (smallest < largest AND smallest >= -1e100 AND largest <= 1e100), 
    CONSTRAINT ck_metrics_weight_not_negative CHECK (weight = 0 OR (weight >= 1e-6 AND weight <= 1e6)), 
    CONSTRAINT fk_metrics_policy_id_policies FOREIGN KEY(policy_id) REFERENCES policies (id)
);

COMMENT ON TABLE metrics IS 'Metrics that count in a policy''s rewards, besides `reward` and `comparison`.';
COMMENT ON COLUMN metrics.policy_id IS 'The policy.';
COMMENT ON COLUMN metrics.name IS 'The metric''s name, as rewards say it.';
COMMENT ON COLUMN metrics.smallest IS 'Smallest value accepted.';
COMMENT ON COLUMN metrics.largest IS 'Largest value accepted.';
COMMENT ON COLUMN metrics.direction IS 'Which values are good: higher or lower.';
COMMENT ON COLUMN metrics.weight IS 'Its weight in the reward; 0 = it does not count.';
COMMENT ON COLUMN metrics.created_at IS 'When the row was written (UTC).';

CREATE TABLE IF NOT EXISTS comparisons (
    id UUID NOT NULL, 
    project_id UUID NOT NULL, 
    preferred_event_id UUID NOT NULL, 
    other_event_id UUID NOT NULL, 
    group_id UUID, 
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, 
    CONSTRAINT pk_comparisons PRIMARY KEY (id), 
    CONSTRAINT fk_comparisons_project_id_projects FOREIGN KEY(project_id) REFERENCES projects (id)
);

CREATE INDEX IF NOT EXISTS ix_comparisons_waiting ON comparisons (created_at) WHERE group_id IS NULL;
COMMENT ON TABLE comparisons IS 'Which of two trajectories was better: each makes two reward events of metric comparison.';
COMMENT ON COLUMN comparisons.id IS 'UUIDv7 of the comparison.';
COMMENT ON COLUMN comparisons.project_id IS 'The tenant that posted it.';
COMMENT ON COLUMN comparisons.preferred_event_id IS 'The reward event of the better one (value 1).';
COMMENT ON COLUMN comparisons.other_event_id IS 'The reward event of the other one (value 0).';
COMMENT ON COLUMN comparisons.group_id IS 'The group that both are in; NULL = they are not in one, yet.';
COMMENT ON COLUMN comparisons.created_at IS 'When the row was written (UTC).';

CREATE TABLE IF NOT EXISTS route_baselines (
    policy_id UUID NOT NULL, 
    route TEXT NOT NULL, 
    mean DOUBLE PRECISION NOT NULL, 
    variance DOUBLE PRECISION NOT NULL, 
    num_samples BIGINT NOT NULL, 
    step_id UUID NOT NULL, 
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, 
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, 
    CONSTRAINT pk_route_baselines PRIMARY KEY (policy_id, route), 
    CONSTRAINT ck_route_baselines_num_samples_positive CHECK (num_samples >= 1), 
    CONSTRAINT fk_route_baselines_policy_id_policies FOREIGN KEY(policy_id) REFERENCES policies (id)
);

COMMENT ON TABLE route_baselines IS 'What a reward without a group is compared with: the mean of its policy''s route so far.';
COMMENT ON COLUMN route_baselines.policy_id IS 'The policy.';
COMMENT ON COLUMN route_baselines.route IS 'The route (trajectories.route).';
COMMENT ON COLUMN route_baselines.mean IS 'Running mean of the rewards that steps read.';
COMMENT ON COLUMN route_baselines.variance IS 'Running variance of them.';
COMMENT ON COLUMN route_baselines.num_samples IS 'How many rewards there were.';
COMMENT ON COLUMN route_baselines.step_id IS 'The step that added the newest.';
COMMENT ON COLUMN route_baselines.updated_at IS 'When the newest was added.';
COMMENT ON COLUMN route_baselines.created_at IS 'When the row was written (UTC).';

CREATE TABLE IF NOT EXISTS plans (
    id UUID NOT NULL, 
    project_id UUID NOT NULL, 
    taken_at TIMESTAMP WITH TIME ZONE, 
    answered_at TIMESTAMP WITH TIME ZONE, 
    plan JSONB, 
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, 
    CONSTRAINT pk_plans PRIMARY KEY (id), 
    CONSTRAINT fk_plans_project_id_projects FOREIGN KEY(project_id) REFERENCES projects (id)
);

COMMENT ON TABLE plans IS 'Dry runs that the proxy asked a worker for. Rows are removed soon.';
COMMENT ON COLUMN plans.id IS 'UUIDv7 of the plan.';
COMMENT ON COLUMN plans.project_id IS 'Whose groups are looked at.';
COMMENT ON COLUMN plans.taken_at IS 'When a worker began to compute it; NULL = none did yet.';
COMMENT ON COLUMN plans.answered_at IS 'When a worker answered; NULL = none did yet.';
COMMENT ON COLUMN plans.plan IS 'What the next step would do; ids and numbers, no words.';
COMMENT ON COLUMN plans.created_at IS 'When the row was written (UTC).';

CREATE TABLE IF NOT EXISTS judge_runs (
    id UUID NOT NULL, 
    project_id UUID NOT NULL, 
    policy_id UUID NOT NULL, 
    group_id UUID NOT NULL, 
    model TEXT NOT NULL, 
    state TEXT NOT NULL, 
    num_votes INTEGER NOT NULL, 
    num_calls INTEGER, 
    num_prompt_tokens BIGINT, 
    num_completion_tokens BIGINT, 
    cost DOUBLE PRECISION, 
    scores JSONB, 
    reason TEXT, 
    is_outage BOOLEAN DEFAULT false NOT NULL, 
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    finished_at TIMESTAMP WITH TIME ZONE, 
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, 
    CONSTRAINT pk_judge_runs PRIMARY KEY (id), 
    CONSTRAINT ck_judge_runs_state_known CHECK (state IN ('running', 'finished', 'failed', 'refused')), 
    CONSTRAINT ck_judge_runs_num_votes_positive CHECK (num_votes >= 1), 
    CONSTRAINT fk_judge_runs_project_id_projects FOREIGN KEY(project_id) REFERENCES projects (id), 
    CONSTRAINT fk_judge_runs_policy_id_policies FOREIGN KEY(policy_id) REFERENCES policies (id)
);

CREATE INDEX IF NOT EXISTS ix_judge_runs_created_at ON judge_runs (created_at);
CREATE INDEX IF NOT EXISTS ix_judge_runs_group_id ON judge_runs (group_id, created_at);
CREATE UNIQUE INDEX IF NOT EXISTS uq_judge_runs_running ON judge_runs (group_id) WHERE state = 'running';
COMMENT ON TABLE judge_runs IS 'Groups that a judge model was asked to score, and what that cost.';
COMMENT ON COLUMN judge_runs.id IS 'UUIDv7 of the run.';
COMMENT ON COLUMN judge_runs.project_id IS 'The tenant.';
COMMENT ON COLUMN judge_runs.policy_id IS 'The policy whose group it is.';
COMMENT ON COLUMN judge_runs.group_id IS 'The group that was judged.';
COMMENT ON COLUMN judge_runs.model IS 'The judge, as LiteLLM names it.';
COMMENT ON COLUMN judge_runs.state IS 'running, finished, failed or refused.';
COMMENT ON COLUMN judge_runs.num_votes IS 'How often it was asked to score the group.';
COMMENT ON COLUMN judge_runs.num_calls IS 'Calls made, re-judging included; while it runs, the most it may make.';
COMMENT ON COLUMN judge_runs.num_prompt_tokens IS 'As the provider counted; while it runs, what it has reserved.';
COMMENT ON COLUMN judge_runs.num_completion_tokens IS 'Likewise.';
COMMENT ON COLUMN judge_runs.cost IS 'Likewise, in US dollars by LiteLLM''s price list; NULL = it knows no price.';
COMMENT ON COLUMN judge_runs.scores IS 'Votes, mean and spread (0 to 1) by trajectory id, the seed, who was unscored, who was shown as a scale.';
COMMENT ON COLUMN judge_runs.reason IS 'Why it failed or was refused, in one sentence.';
COMMENT ON COLUMN judge_runs.is_outage IS 'It failed since nobody answered: no failure of the group''s.';
COMMENT ON COLUMN judge_runs.expires_at IS 'Until when it has its group for itself: a running one that is over belongs to a dead process.';
COMMENT ON COLUMN judge_runs.finished_at IS 'When it ended.';
COMMENT ON COLUMN judge_runs.created_at IS 'When the row was written (UTC).';

CREATE TABLE IF NOT EXISTS workers (
    policy TEXT NOT NULL, 
    base_model TEXT NOT NULL, 
    owner TEXT NOT NULL, 
    settings JSONB NOT NULL, 
    started_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    CONSTRAINT pk_workers PRIMARY KEY (policy, base_model)
);

COMMENT ON TABLE workers IS 'What the trainer runs with, for whoever explains what it will do. No secrets.';
COMMENT ON COLUMN workers.policy IS 'Name of the policies that it trains, in every project.';
COMMENT ON COLUMN workers.base_model IS 'The base model that it trains them on.';
COMMENT ON COLUMN workers.owner IS 'The process: host, pid and a random part.';
COMMENT ON COLUMN workers.settings IS 'What decides when a step begins, and what it trains.';
COMMENT ON COLUMN workers.started_at IS 'When the newest one started.';
COMMENT ON COLUMN workers.seen_at IS 'When one was last seen alive.';
CREATE TABLE IF NOT EXISTS sibling_runs (
    id UUID NOT NULL, 
    project_id UUID NOT NULL, 
    policy_id UUID NOT NULL, 
    trajectory_id UUID NOT NULL, 
    exchange_id UUID NOT NULL, 
    group_id UUID NOT NULL, 
    sibling_ids UUID[] NOT NULL, 
    state TEXT NOT NULL, 
    num_attempts INTEGER DEFAULT 0 NOT NULL, 
    num_tokens BIGINT DEFAULT 0 NOT NULL, 
    reason TEXT, 
    lease_owner TEXT, 
    lease_expires_at TIMESTAMP WITH TIME ZONE, 
    next_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, 
    finished_at TIMESTAMP WITH TIME ZONE, 
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, 
    CONSTRAINT pk_sibling_runs PRIMARY KEY (id), 
    CONSTRAINT ck_sibling_runs_state_known CHECK (state IN ('sampling', 'scoring', 'finished', 'dropped')), 
    CONSTRAINT ck_sibling_runs_reason_known CHECK (reason IN ('prompt_mismatch', 'group_closed', 'erased', 'untrainable', 'sampling_failed', 'scorer_failed')), 
    CONSTRAINT ck_sibling_runs_dropped_has_reason CHECK ((state = 'dropped') = (reason IS NOT NULL)), 
    CONSTRAINT fk_sibling_runs_project_id_projects FOREIGN KEY(project_id) REFERENCES projects (id), 
    CONSTRAINT fk_sibling_runs_policy_id_policies FOREIGN KEY(policy_id) REFERENCES policies (id)
);

CREATE INDEX IF NOT EXISTS ix_sibling_runs_created_at ON sibling_runs (created_at);
CREATE INDEX IF NOT EXISTS ix_sibling_runs_exchange_id ON sibling_runs (exchange_id);
CREATE INDEX IF NOT EXISTS ix_sibling_runs_waiting ON sibling_runs (next_at) WHERE finished_at IS NULL;
CREATE UNIQUE INDEX IF NOT EXISTS uq_sibling_runs_trajectory_id ON sibling_runs (trajectory_id);
COMMENT ON TABLE sibling_runs IS 'Trajectories that the worker samples siblings for: at most once each.';
COMMENT ON COLUMN sibling_runs.id IS 'UUIDv7 of the run; the siblings'' ids follow from it.';
COMMENT ON COLUMN sibling_runs.project_id IS 'The tenant.';
COMMENT ON COLUMN sibling_runs.policy_id IS 'The policy.';
COMMENT ON COLUMN sibling_runs.trajectory_id IS 'The user''s trajectory.';
COMMENT ON COLUMN sibling_runs.exchange_id IS 'Its one exchange.';
COMMENT ON COLUMN sibling_runs.group_id IS 'Its group, which the siblings join.';
COMMENT ON COLUMN sibling_runs.sibling_ids IS 'The siblings'' trajectories, sampled or not yet.';
COMMENT ON COLUMN sibling_runs.state IS 'sampling, scoring, finished or dropped.';
COMMENT ON COLUMN sibling_runs.num_attempts IS 'Failures in a row, in this state; a crash counts.';
COMMENT ON COLUMN sibling_runs.num_tokens IS 'Tokens of prompts and answers; of what was lost, the most it can have been.';
COMMENT ON COLUMN sibling_runs.reason IS 'Why it was dropped.';
COMMENT ON COLUMN sibling_runs.lease_owner IS 'The worker that holds it.';
COMMENT ON COLUMN sibling_runs.lease_expires_at IS 'When another may take it over.';
COMMENT ON COLUMN sibling_runs.next_at IS 'Not to be taken before.';
COMMENT ON COLUMN sibling_runs.finished_at IS 'When it ended.';
COMMENT ON COLUMN sibling_runs.created_at IS 'When the row was written (UTC).';

ALTER TABLE policies ADD COLUMN IF NOT EXISTS combination TEXT DEFAULT 'mean' NOT NULL;
ALTER TABLE reward_events ADD COLUMN IF NOT EXISTS is_final BOOLEAN DEFAULT true NOT NULL;
ALTER TABLE reward_events ADD COLUMN IF NOT EXISTS is_whole BOOLEAN DEFAULT false NOT NULL;
ALTER TABLE reward_events ADD COLUMN IF NOT EXISTS comparison_id UUID;
ALTER TABLE groups ADD COLUMN IF NOT EXISTS route TEXT;
ALTER TABLE groups ADD COLUMN IF NOT EXISTS reward_mean DOUBLE PRECISION;
ALTER TABLE groups ADD COLUMN IF NOT EXISTS num_scored INTEGER;
ALTER TABLE trajectories ADD COLUMN IF NOT EXISTS route TEXT;
ALTER TABLE trajectories ADD COLUMN IF NOT EXISTS is_shadow BOOLEAN DEFAULT false NOT NULL;
ALTER TABLE exchanges ADD COLUMN IF NOT EXISTS is_explored BOOLEAN DEFAULT false NOT NULL;
ALTER TABLE exchanges ADD COLUMN IF NOT EXISTS is_shadow BOOLEAN DEFAULT false NOT NULL;
ALTER TABLE step_samples ADD COLUMN IF NOT EXISTS trajectory_reward DOUBLE PRECISION;
ALTER TABLE step_samples ADD COLUMN IF NOT EXISTS reward_event_ids UUID[];
ALTER TABLE step_samples ADD COLUMN IF NOT EXISTS num_baseline_samples INTEGER;
COMMENT ON COLUMN policies.combination IS 'How the judgements that count make one reward: mean (weighted), sum, min or last.';
COMMENT ON COLUMN reward_events.is_final IS 'false: more is to come, and its group waits for it until its deadline.';
COMMENT ON COLUMN reward_events.is_whole IS 'Whether it judges the whole trajectory, though its target is a reply''s id.';
COMMENT ON COLUMN reward_events.comparison_id IS 'The comparison that it is one half of.';
COMMENT ON COLUMN groups.route IS 'The route of its first member: what its members have in common beside the task.';
COMMENT ON COLUMN groups.reward_mean IS 'Mean reward of its members when it was trained: the baseline of late ones.';
COMMENT ON COLUMN groups.num_scored IS 'How many rewards that mean is of.';
COMMENT ON COLUMN trajectories.route IS 'Its route: a digest of endpoint, template of its first prompt and tools, or of the name that the caller gave.';
COMMENT ON COLUMN trajectories.is_shadow IS 'Whether the worker sampled it as a sibling of another: no user ever saw it.';
COMMENT ON COLUMN exchanges.is_explored IS 'Whether temperature 0 was asked for and `temperature` was sampled with instead.';
COMMENT ON COLUMN exchanges.is_shadow IS 'Whether the worker sampled it: no user ever saw it.';
COMMENT ON COLUMN step_samples.trajectory_reward IS 'The reward of its whole trajectory, as the step read it.';
COMMENT ON COLUMN step_samples.reward_event_ids IS 'The reward events that `reward` was made of.';
COMMENT ON COLUMN step_samples.num_baseline_samples IS 'How many rewards the baseline is made of.';
COMMENT ON COLUMN groups.kind IS 'explicit (caller''s id), choices (n of one call), prompt (same first prompt) or comparison.';
COMMENT ON COLUMN removals.table_name IS 'Which of exchanges, trajectories, trajectory_names, groups, reward_events, comparisons, judge_runs, sibling_runs, route_baselines.';
COMMENT ON COLUMN step_samples.reward IS 'Its reward as the step read it: its own, else its trajectory''s; NULL = unscored.';

ALTER TABLE exchanges DROP CONSTRAINT IF EXISTS ck_exchanges_untrainable_reason_known;
ALTER TABLE exchanges ADD CONSTRAINT ck_exchanges_untrainable_reason_known
    CHECK (untrainable_reason IN ('missing_token_ids', 'missing_logprobs', 'logprobs_mismatch', 'version_mismatch', 'greedy', 'cancelled', 'failed', 'interrupted', 'empty_completion', 'external_model', 'opted_out', 'duplicate_retry', 'unscored', 'no_variance', 'group_incomplete', 'group_already_trained', 'too_stale', 'too_long', 'truncated', 'no_baseline', 'erased')) NOT VALID;
ALTER TABLE step_samples DROP CONSTRAINT IF EXISTS ck_step_samples_reason_known;
ALTER TABLE step_samples ADD CONSTRAINT ck_step_samples_reason_known
    CHECK (reason IN ('missing_token_ids', 'missing_logprobs', 'logprobs_mismatch', 'version_mismatch', 'greedy', 'cancelled', 'failed', 'interrupted', 'empty_completion', 'external_model', 'opted_out', 'duplicate_retry', 'unscored', 'no_variance', 'group_incomplete', 'group_already_trained', 'too_stale', 'too_long', 'truncated', 'no_baseline', 'erased')) NOT VALID;
ALTER TABLE groups DROP CONSTRAINT IF EXISTS ck_groups_reason_known;
ALTER TABLE groups ADD CONSTRAINT ck_groups_reason_known
    CHECK (reason IN ('missing_token_ids', 'missing_logprobs', 'logprobs_mismatch', 'version_mismatch', 'greedy', 'cancelled', 'failed', 'interrupted', 'empty_completion', 'external_model', 'opted_out', 'duplicate_retry', 'unscored', 'no_variance', 'group_incomplete', 'group_already_trained', 'too_stale', 'too_long', 'truncated', 'no_baseline', 'erased')) NOT VALID;
ALTER TABLE groups DROP CONSTRAINT IF EXISTS ck_groups_kind_known;
ALTER TABLE groups ADD CONSTRAINT ck_groups_kind_known
    CHECK (kind IN ('explicit', 'choices', 'prompt', 'comparison')) NOT VALID;
ALTER TABLE step_samples DROP CONSTRAINT IF EXISTS ck_step_samples_baseline_kind_known;
ALTER TABLE step_samples ADD CONSTRAINT ck_step_samples_baseline_kind_known
    CHECK (baseline_kind IN ('explicit_group', 'choices_group', 'prompt_group', 'comparison_group', 'stored_group', 'running')) NOT VALID;
ALTER TABLE policies DROP CONSTRAINT IF EXISTS ck_policies_reward_range_bounded;
ALTER TABLE policies ADD CONSTRAINT ck_policies_reward_range_bounded
    CHECK (reward_min >= -1e100 AND reward_max <= 1e100);
ALTER TABLE policies DROP CONSTRAINT IF EXISTS ck_policies_combination_known;
ALTER TABLE policies ADD CONSTRAINT ck_policies_combination_known
    CHECK (combination IN ('mean', 'sum', 'min', 'last'));
