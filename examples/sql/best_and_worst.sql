-- The five best and the five worst trajectories, with what was asked first and answered last.
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
WITH scored AS (
    SELECT
        trajectory_id,
        reward,
        row_number() OVER (ORDER BY reward DESC, trajectory_id) AS from_best,
        row_number() OVER (ORDER BY reward, trajectory_id) AS from_worst
    FROM v1.trajectory_rewards
    WHERE trajectory_id >= v1.first_id_at(:'since') AND NOT is_shadow
)
SELECT
    CASE WHEN s.from_best <= 5 THEN 'best' ELSE 'worst' END AS which,
    round(s.reward::numeric, 3) AS reward,
    t.project,
    t.policy,
    t.id,
    CASE WHEN t.erased_at IS NULL THEN left(regexp_replace(t.asked, '\s+', ' ', 'g'), 20) ELSE '(erased)' END AS asked,
    CASE WHEN t.erased_at IS NULL THEN left(regexp_replace(t.answered, '\s+', ' ', 'g'), 20) ELSE '(erased)' END AS answered
FROM scored AS s
JOIN v1.trajectories AS t ON t.id = s.trajectory_id
WHERE s.from_best <= 5 OR s.from_worst <= 5
ORDER BY s.reward DESC, s.trajectory_id;
