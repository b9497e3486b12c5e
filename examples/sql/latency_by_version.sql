-- How long answers take, by version: seconds to the first token and to the end.
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
SELECT
    project,
    policy,
    version,
    count(*) AS num_answers,
    round((percentile_cont(0.5) WITHIN GROUP (ORDER BY first_token_seconds))::numeric, 3) AS first_token_p50,
    round((percentile_cont(0.99) WITHIN GROUP (ORDER BY first_token_seconds))::numeric, 3) AS first_token_p99,
    round((percentile_cont(0.5) WITHIN GROUP (ORDER BY total_seconds))::numeric, 3) AS total_p50,
    round((percentile_cont(0.95) WITHIN GROUP (ORDER BY total_seconds))::numeric, 3) AS total_p95,
    round((percentile_cont(0.99) WITHIN GROUP (ORDER BY total_seconds))::numeric, 3) AS total_p99
FROM v1.exchanges
WHERE id >= v1.first_id_at(:'since') AND status = 'completed' AND version IS NOT NULL AND NOT is_shadow
GROUP BY project, policy, version
ORDER BY project, policy, version;
