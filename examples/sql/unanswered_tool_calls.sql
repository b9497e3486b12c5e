-- Tool calls that nobody answered: the trajectory ended with one. By tool, with an example.
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
WITH asking AS (
    SELECT e.project, e.policy, e.trajectory_id, e.id, e.response
    FROM v1.exchanges AS e
    WHERE e.id >= v1.first_id_at(:'since') AND e.finish_reason IN ('tool_calls', 'tool_use') AND e.num_tool_calls > 0
        AND NOT e.is_shadow
        AND NOT EXISTS (SELECT FROM v1.exchanges AS next WHERE next.trajectory_id = e.trajectory_id AND next.id > e.id)
)
SELECT
    a.project,
    a.policy,
    coalesce(call #>> '{function,name}', call ->> 'name') AS tool,
    count(*) AS num_unanswered,
    max(a.trajectory_id::text) AS newest_trajectory
FROM asking AS a
CROSS JOIN LATERAL (
    SELECT jsonb_path_query(a.response, '$.tool_calls[*]') AS call
    UNION ALL
    SELECT jsonb_path_query(a.response, '$.content[*] ? (@.type == "tool_use")')
) AS calls
GROUP BY 1, 2, 3
ORDER BY num_unanswered DESC, 1, 2, 3;
