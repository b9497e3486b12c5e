-- Calls that did not come to their end, and why: who hung up after how long, what vLLM answered instead.
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
SELECT
    project,
    policy,
    status,
    error_code,
    is_streamed,
    count(*) AS num_calls,
    round((percentile_cont(0.5) WITHIN GROUP (ORDER BY total_seconds))::numeric, 2) AS seconds,
    sum(num_completion_tokens) AS tokens_lost,
    count(DISTINCT trajectory_id) AS num_trajectories
FROM v1.exchanges
WHERE id >= v1.first_id_at(:'since') AND status <> 'completed' AND NOT is_shadow
GROUP BY 1, 2, 3, 4, 5
ORDER BY num_calls DESC, 1, 2, 3, 4, 5;
