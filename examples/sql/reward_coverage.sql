-- How much of the traffic is ever scored, and how long it takes until the first reward, by week.
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
WITH scored AS (
    SELECT trajectory_id, first_rewarded_at
    FROM v1.trajectory_rewards
    WHERE trajectory_id >= v1.first_id_at(:'since')
)
SELECT
    date_trunc('week', t.created_at, 'UTC')::date AS week,
    t.project,
    t.policy,
    count(*) AS num_trajectories,
    count(s.trajectory_id) AS num_scored,
    round(100.0 * count(s.trajectory_id) / count(*), 1) AS percent,
    round((percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM s.first_rewarded_at - t.created_at)) / 60)::numeric, 1) AS minutes_p50,
    round((percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM s.first_rewarded_at - t.created_at)) / 60)::numeric, 1) AS minutes_p95
FROM v1.trajectories AS t
LEFT JOIN scored AS s ON s.trajectory_id = t.id
WHERE t.id >= v1.first_id_at(:'since') AND NOT t.is_shadow
GROUP BY 1, 2, 3
ORDER BY 2, 3, 1;
