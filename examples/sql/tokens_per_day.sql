-- Tokens per day, project and policy.
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
SELECT
    date_trunc('day', started_at, 'UTC')::date AS day,
    project,
    policy,
    count(*) AS num_exchanges,
    sum(num_prompt_tokens) AS num_prompt_tokens,
    sum(num_completion_tokens) AS num_completion_tokens
FROM v1.exchanges
WHERE id >= v1.first_id_at(:'since') AND NOT is_shadow
GROUP BY 1, 2, 3
ORDER BY 1 DESC, 2, 3;
