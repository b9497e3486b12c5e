-- The end users with the most thumbs down (a judgement that counts and is worth 0 or less), and how much of what they judged it is.
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
SELECT
    r.project,
    t.policy,
    t.end_user,
    count(*) FILTER (WHERE r.score <= 0) AS num_down,
    count(*) AS num_judged,
    round(100.0 * count(*) FILTER (WHERE r.score <= 0) / count(*), 1) AS percent_down,
    max(r.observed_at) FILTER (WHERE r.score <= 0) AS last_down_at
FROM v1.rewards AS r
JOIN v1.trajectories AS t ON t.id = r.trajectory_id
WHERE r.is_counted AND NOT r.is_shadow AND r.id >= v1.first_id_at(:'since') AND t.end_user IS NOT NULL
GROUP BY 1, 2, 3
HAVING count(*) FILTER (WHERE r.score <= 0) > 0
ORDER BY num_down DESC, percent_down DESC, 1, 2, 3
LIMIT 20;
