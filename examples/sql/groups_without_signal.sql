-- Groups that did not teach, and cannot as they are: unscored, a lone score that was left out, or all rewards alike.
-- Left out here: what was trained, and a lone score that still may be compared with its route's running baseline.
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
WITH scored AS (
    SELECT trajectory_id, reward
    FROM v1.trajectory_rewards
    WHERE trajectory_id >= v1.first_id_at(:'since')
),
members AS (
    SELECT
        t.group_id,
        count(*) AS num_members,
        count(s.reward) AS num_scored,
        avg(s.reward) AS reward,
        min(s.reward) < max(s.reward) AS differ
    FROM v1.trajectories AS t
    LEFT JOIN scored AS s ON s.trajectory_id = t.id
    WHERE t.id >= v1.first_id_at(:'since') AND t.group_id IS NOT NULL
    GROUP BY t.group_id
)
SELECT
    g.project,
    g.policy,
    g.kind,
    CASE
        WHEN m.num_scored = 0 THEN 'unscored'
        WHEN m.num_members = 1 THEN 'one member'
        WHEN m.num_scored = 1 THEN 'one scored'
        ELSE 'all alike'
    END AS why,
    count(*) AS num_groups,
    sum(m.num_members) AS num_trajectories,
    round(avg(m.reward)::numeric, 3) AS reward
FROM members AS m
JOIN v1.groups AS g ON g.id = m.group_id
WHERE m.differ IS NOT TRUE AND g.state <> 'trained' AND (m.num_scored <> 1 OR g.state = 'skipped')
GROUP BY 1, 2, 3, 4
ORDER BY num_groups DESC, 1, 2, 3, 4;
