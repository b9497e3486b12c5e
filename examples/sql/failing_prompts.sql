-- Prompts that always fail: at least :attempts scored attempts (default 3), and none above :bad (default 0).
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
\if :{?attempts}
\else
\set attempts 3
\endif
\if :{?bad}
\else
\set bad 0
\endif
WITH scored AS (
    SELECT trajectory_id, reward
    FROM v1.trajectory_rewards
    WHERE trajectory_id >= v1.first_id_at(:'since')
),
asked AS (
    SELECT DISTINCT ON (trajectory_id) trajectory_id, project, policy, messages #>> '{-1,content}' AS prompt
    FROM v1.exchanges
    WHERE id >= v1.first_id_at(:'since') AND num_shared_messages = 0 AND erased_at IS NULL AND NOT is_shadow
    ORDER BY trajectory_id, id
)
SELECT
    project,
    policy,
    left(regexp_replace(prompt, '\s+', ' ', 'g'), 40) AS prompt,
    count(*) AS num_attempts,
    round(avg(reward)::numeric, 3) AS reward,
    max(trajectory_id::text) AS newest_trajectory
FROM asked
JOIN scored USING (trajectory_id)
GROUP BY project, policy, asked.prompt
HAVING count(*) >= :attempts AND max(reward) <= :bad
ORDER BY num_attempts DESC, 1, 2, 3
LIMIT 20;
