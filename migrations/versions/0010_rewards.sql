-- Which judgements count, what they are worth, and what they make together: everything else reads it from here.

-- One row per reward event, with the rule of its policy. Not part of the interface: v1.rewards is.
-- smallest and largest: what is accepted; NULL = nothing is known of the policy (its trajectory is gone).
-- is_half: one half of a comparison whose other half has no row yet, or judges the same: better than nobody.
CREATE VIEW public.judgements AS
SELECT
    r.*,
    CASE
        WHEN r.value < r.smallest OR r.value > r.largest THEN NULL
        -- what is this small is nothing: Postgres calls a product that is too small an error
        WHEN r.is_plain THEN CASE WHEN r.value BETWEEN -1e-100 AND 1e-100 THEN 0 ELSE r.value END
        ELSE least(r.reward_max, r.reward_min + (r.reward_max - r.reward_min)
            * (CASE WHEN r.from_worst < 1e-100 THEN 0 ELSE r.from_worst END / (r.largest - r.smallest)))
    END AS score,
    r.comparison_id IS NOT NULL AND EXISTS (
        SELECT FROM public.comparisons AS c
        JOIN public.reward_events AS half ON half.id IN (c.preferred_event_id, c.other_event_id) AND half.id <> r.id
        WHERE c.id = r.comparison_id AND (
            half.trajectory_id IS NULL
            OR half.trajectory_id = r.trajectory_id AND half.exchange_id IS NOT DISTINCT FROM r.exchange_id
        )
    ) AS is_half
FROM (
    SELECT
        r.id, r.project_id, r.target, r.trajectory_id, r.exchange_id, r.metric, r.value, r.content, r.comment, r.source,
        r.is_retraction, r.idempotency_id, r.observed_at, r.created_at, r.key_id, r.is_final, r.is_whole,
        r.comparison_id, t.policy_id, coalesce(t.is_shadow, false) AS is_shadow,
        coalesce(policy.reward_min, -1) AS reward_min,
        coalesce(policy.reward_max, 1) AS reward_max,
        coalesce(policy.combination, 'mean') AS combination,
        coalesce(m.weight, CASE WHEN r.metric IN ('reward', 'comparison') THEN 1 END) AS weight,
        coalesce(m.smallest, CASE r.metric WHEN 'reward' THEN policy.reward_min WHEN 'comparison' THEN 0 END) AS smallest,
        coalesce(m.largest, CASE r.metric WHEN 'reward' THEN policy.reward_max WHEN 'comparison' THEN 1 END) AS largest,
        CASE WHEN m.direction = 'lower' THEN m.largest - r.value ELSE r.value - coalesce(m.smallest, 0) END AS from_worst,
        m.policy_id IS NULL AND r.metric = 'reward' AS is_plain
    FROM public.reward_events AS r
    LEFT JOIN public.trajectories AS t ON t.id = r.trajectory_id
    LEFT JOIN public.policies AS policy ON policy.id = t.policy_id
    LEFT JOIN public.metrics AS m ON m.policy_id = t.policy_id AND m.name = r.metric
) AS r;

-- is_counted says the same as not_counted_reason IS NULL, in single conditions, which the planner can estimate.
-- What asks for a judge's event first is asked for no other.
CREATE OR REPLACE VIEW v1.rewards AS
SELECT
    r.id, p.name AS project, r.target, r.trajectory_id, r.exchange_id, r.metric, r.value, r.content, r.comment,
    r.source, r.is_retraction, r.observed_at, r.created_at,
    r.trajectory_id IS NOT NULL AND NOT r.is_retraction AND r.value IS NOT NULL AND (r.weight > 0) IS TRUE
        AND NOT r.is_half
        AND (r.value < r.smallest OR r.value > r.largest) IS NOT TRUE
        AND NOT EXISTS (
            SELECT FROM public.reward_events AS later
            WHERE later.trajectory_id = r.trajectory_id AND later.id > r.id
                AND later.exchange_id IS NOT DISTINCT FROM r.exchange_id
                AND later.metric = r.metric AND later.source = r.source
                AND later.comparison_id IS NOT DISTINCT FROM r.comparison_id
        )
        AND (r.source <> 'judge' OR NOT EXISTS (
            SELECT FROM public.judgements AS other
            WHERE other.trajectory_id = r.trajectory_id AND other.source <> r.source
                AND NOT other.is_retraction AND other.value IS NOT NULL AND (other.weight > 0) IS TRUE
                AND NOT other.is_half
                AND (other.value < other.smallest OR other.value > other.largest) IS NOT TRUE
                AND NOT EXISTS (
                    SELECT FROM public.reward_events AS later
                    WHERE later.trajectory_id = other.trajectory_id AND later.id > other.id
                        AND later.exchange_id IS NOT DISTINCT FROM other.exchange_id
                        AND later.metric = other.metric AND later.source = other.source
                        AND later.comparison_id IS NOT DISTINCT FROM other.comparison_id
                )
        )) AS is_counted,
    CASE
        WHEN r.trajectory_id IS NULL THEN 'early'
        -- whoever says words, and no value, need not declare them
        WHEN (r.weight > 0) IS NOT TRUE AND (r.value IS NOT NULL OR r.metric NOT IN ('comment', 'demonstration')) THEN 'other_metric'
        WHEN EXISTS (
            SELECT FROM public.reward_events AS later
            WHERE later.trajectory_id = r.trajectory_id AND later.id > r.id
                AND later.exchange_id IS NOT DISTINCT FROM r.exchange_id
                AND later.metric = r.metric AND later.source = r.source
                AND later.comparison_id IS NOT DISTINCT FROM r.comparison_id
        ) THEN 'superseded'
        WHEN r.is_retraction THEN 'retraction'
        WHEN r.is_half THEN 'early'
        WHEN r.value IS NULL THEN 'no_value'
        WHEN r.value < r.smallest OR r.value > r.largest THEN 'out_of_range'
        WHEN r.source = 'judge' AND EXISTS (
            SELECT FROM public.judgements AS other
            WHERE other.trajectory_id = r.trajectory_id AND other.source <> r.source
                AND NOT other.is_retraction AND other.value IS NOT NULL AND (other.weight > 0) IS TRUE
                AND NOT other.is_half
                AND (other.value < other.smallest OR other.value > other.largest) IS NOT TRUE
                AND NOT EXISTS (
                    SELECT FROM public.reward_events AS later
                    WHERE later.trajectory_id = other.trajectory_id AND later.id > other.id
                        AND later.exchange_id IS NOT DISTINCT FROM other.exchange_id
                        AND later.metric = other.metric AND later.source = other.source
                        AND later.comparison_id IS NOT DISTINCT FROM other.comparison_id
                )
        ) THEN 'outranked'
    END AS not_counted_reason,
    policy.name AS policy, r.idempotency_id, r.key_id, k.name AS key_name,
    r.score, r.weight, r.combination, r.is_final, r.is_whole, r.comparison_id, r.is_shadow
FROM public.judgements AS r
LEFT JOIN public.projects AS p ON p.id = r.project_id
LEFT JOIN public.policies AS policy ON policy.id = r.policy_id
LEFT JOIN public.api_keys AS k ON k.id = r.key_id;

-- The rule of a policy over what counts. In numeric: the same judgements in another order make the same reward, to the
-- last bit, and judgements that are alike make just themselves.
CREATE VIEW v1.trajectory_rewards AS
SELECT
    r.trajectory_id,
    CASE
        WHEN r.combination <> 'sum' AND min(r.score) = max(r.score) THEN min(r.score)
        WHEN r.combination = 'min' THEN min(r.score)
        WHEN r.combination = 'last' THEN CAST((
            max(ARRAY[CAST(r.id AS text), CAST(r.score AS text)]) FILTER (WHERE r.combination = 'last')
        )[2] AS double precision)
        WHEN r.combination = 'sum' THEN CAST(sum(CAST(r.weight AS numeric) * CAST(r.score AS numeric)) AS double precision)
        ELSE CAST(
            sum(CAST(r.weight AS numeric) * CAST(r.score AS numeric)) / sum(CAST(r.weight AS numeric))
        AS double precision)
    END AS reward,
    count(*) AS num_rewards,
    bool_or(r.is_final) AS is_final,
    min(r.created_at) AS first_rewarded_at,
    max(r.created_at) AS last_rewarded_at,
    array_agg(r.id ORDER BY r.id) AS event_ids,
    CASE
        WHEN r.combination <> 'sum' AND min(r.score) FILTER (WHERE r.exchange_id IS NULL) = max(r.score) FILTER (WHERE r.exchange_id IS NULL) THEN min(r.score) FILTER (WHERE r.exchange_id IS NULL)
        WHEN r.combination = 'min' THEN min(r.score) FILTER (WHERE r.exchange_id IS NULL)
        WHEN r.combination = 'last' THEN CAST((
            max(ARRAY[CAST(r.id AS text), CAST(r.score AS text)]) FILTER (WHERE r.exchange_id IS NULL AND r.combination = 'last')
        )[2] AS double precision)
        WHEN r.combination = 'sum' THEN CAST(sum(CAST(r.weight AS numeric) * CAST(r.score AS numeric)) FILTER (WHERE r.exchange_id IS NULL) AS double precision)
        ELSE CAST(
            sum(CAST(r.weight AS numeric) * CAST(r.score AS numeric)) FILTER (WHERE r.exchange_id IS NULL) / sum(CAST(r.weight AS numeric)) FILTER (WHERE r.exchange_id IS NULL)
        AS double precision)
    END AS whole_reward,
    array_agg(r.id ORDER BY r.id) FILTER (WHERE r.exchange_id IS NULL) AS whole_event_ids,
    bool_or(r.is_shadow) AS is_shadow
FROM v1.rewards AS r
WHERE r.is_counted
GROUP BY r.trajectory_id, r.combination;

CREATE VIEW v1.exchange_rewards AS
SELECT
    r.exchange_id, r.trajectory_id,
    CASE
        WHEN r.combination <> 'sum' AND min(r.score) = max(r.score) THEN min(r.score)
        WHEN r.combination = 'min' THEN min(r.score)
        WHEN r.combination = 'last' THEN CAST((
            max(ARRAY[CAST(r.id AS text), CAST(r.score AS text)]) FILTER (WHERE r.combination = 'last')
        )[2] AS double precision)
        WHEN r.combination = 'sum' THEN CAST(sum(CAST(r.weight AS numeric) * CAST(r.score AS numeric)) AS double precision)
        ELSE CAST(
            sum(CAST(r.weight AS numeric) * CAST(r.score AS numeric)) / sum(CAST(r.weight AS numeric))
        AS double precision)
    END AS reward,
    count(*) AS num_rewards,
    bool_or(r.is_final) AS is_final,
    array_agg(r.id ORDER BY r.id) AS event_ids
FROM v1.rewards AS r
WHERE r.is_counted AND r.exchange_id IS NOT NULL
GROUP BY r.exchange_id, r.trajectory_id, r.combination;

CREATE VIEW v1.metrics AS
SELECT
    p.name AS project, policy.name AS policy, of.name AS metric,
    coalesce(m.smallest, of.smallest) AS smallest,
    coalesce(m.largest, of.largest) AS largest,
    coalesce(m.direction, 'higher') AS direction,
    coalesce(m.weight, 1) AS weight,
    policy.combination,
    m.name IS NOT NULL AS is_declared
FROM public.policies AS policy
JOIN public.projects AS p ON p.id = policy.project_id
CROSS JOIN LATERAL (
    VALUES ('reward', policy.reward_min, policy.reward_max), ('comparison', 0, 1)
    UNION ALL
    SELECT declared.name, declared.smallest, declared.largest FROM public.metrics AS declared
    WHERE declared.policy_id = policy.id AND declared.name NOT IN ('reward', 'comparison')
) AS of (name, smallest, largest)
LEFT JOIN public.metrics AS m ON m.policy_id = policy.id AND m.name = of.name;

CREATE VIEW v1.comparisons AS
SELECT
    c.id, p.name AS project,
    preferred.trajectory_id AS preferred_trajectory_id,
    preferred.exchange_id AS preferred_exchange_id,
    preferred.target AS preferred_target,
    other.trajectory_id AS other_trajectory_id,
    other.exchange_id AS other_exchange_id,
    other.target AS other_target,
    coalesce(preferred.source, other.source) AS source, coalesce(preferred.comment, other.comment) AS comment,
    coalesce(preferred.is_retraction, other.is_retraction) AS is_retracted, c.group_id,
    coalesce(preferred.observed_at, other.observed_at) AS observed_at, c.created_at,
    c.preferred_event_id, c.other_event_id
FROM public.comparisons AS c
LEFT JOIN public.projects AS p ON p.id = c.project_id
LEFT JOIN public.reward_events AS preferred ON preferred.id = c.preferred_event_id
LEFT JOIN public.reward_events AS other ON other.id = c.other_event_id;
