-- Two policies side by side: -v one=default/default -v other=acme/default (PROJECT/POLICY; the default: all of them).
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
\if :{?one}
\else
\set one ''
\endif
\if :{?other}
\else
\set other ''
\endif
WITH scored AS (
    SELECT trajectory_id, reward
    FROM v1.trajectory_rewards
    WHERE trajectory_id >= v1.first_id_at(:'since')
),
judged AS (
    SELECT
        t.project,
        t.policy,
        count(*) AS num_trajectories,
        count(s.reward) AS num_scored,
        avg(s.reward) AS reward,
        1.96 * stddev_samp(s.reward) / sqrt(nullif(count(s.reward), 0)) AS ci95_half
    FROM v1.trajectories AS t
    LEFT JOIN scored AS s ON s.trajectory_id = t.id
    WHERE t.id >= v1.first_id_at(:'since') AND NOT t.is_shadow
    GROUP BY t.project, t.policy
),
answered AS (
    SELECT
        project,
        policy,
        count(*) AS num_exchanges,
        avg(num_completion_tokens) AS tokens_each,
        avg(total_seconds) AS seconds_each
    FROM v1.exchanges
    WHERE id >= v1.first_id_at(:'since') AND NOT is_shadow
    GROUP BY project, policy
)
SELECT
    project,
    policy,
    num_trajectories,
    num_exchanges,
    round(tokens_each, 1) AS tokens_each,
    round(seconds_each::numeric, 3) AS seconds_each,
    num_scored,
    round(reward::numeric, 3) AS reward,
    round(ci95_half::numeric, 3) AS ci95_half
FROM judged
JOIN answered USING (project, policy)
WHERE :'one' IN ('', project || '/' || policy) OR :'other' = project || '/' || policy
ORDER BY project, policy;
