-- Reward by version since :since, with a 95 % interval of the mean: is the model getting better?
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
WITH answered AS (
    SELECT project, policy, trajectory_id, max(version) AS version
    FROM v1.exchanges
    WHERE id >= v1.first_id_at(:'since') AND version IS NOT NULL AND NOT is_shadow
    GROUP BY project, policy, trajectory_id
),
scored AS (
    SELECT trajectory_id, reward
    FROM v1.trajectory_rewards
    WHERE trajectory_id >= v1.first_id_at(:'since')
)
SELECT
    project,
    policy,
    version,
    count(*) AS num_scored,
    round(avg(reward)::numeric, 3) AS reward,
    round((avg(reward) - 1.96 * stddev_samp(reward) / sqrt(count(*)))::numeric, 3) AS ci95_low,
    round((avg(reward) + 1.96 * stddev_samp(reward) / sqrt(count(*)))::numeric, 3) AS ci95_high
FROM answered
JOIN scored USING (trajectory_id)
GROUP BY project, policy, version
ORDER BY project, policy, version;
