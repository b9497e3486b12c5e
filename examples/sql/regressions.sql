-- Versions that are worse than the version before them, beyond chance (95 %): what should be taken back?
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
),
by_version AS (
    SELECT project, policy, version, count(*) AS num, avg(reward) AS mean, var_samp(reward) AS variance
    FROM answered
    JOIN scored USING (trajectory_id)
    GROUP BY project, policy, version
    HAVING count(*) >= 2
),
compared AS (
    SELECT
        *,
        lag(version) OVER line AS version_before,
        lag(num) OVER line AS num_before,
        lag(mean) OVER line AS mean_before,
        lag(variance) OVER line AS variance_before
    FROM by_version
    WINDOW line AS (PARTITION BY project, policy ORDER BY version)
)
SELECT
    project,
    policy,
    version,
    version_before AS before,
    round(mean::numeric, 3) AS reward,
    round(mean_before::numeric, 3) AS reward_before,
    round((mean - mean_before)::numeric, 3) AS difference,
    round((1.96 * sqrt(variance / num + variance_before / num_before))::numeric, 3) AS ci95_half,
    num AS num_scored,
    num_before AS num_before
FROM compared
WHERE mean - mean_before < -1.96 * sqrt(variance / num + variance_before / num_before)
ORDER BY difference, project, policy, version;
