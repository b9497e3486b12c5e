-- The 20 slowest calls: was it the wait for the first token, or the length of the answer?
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
SELECT
    project,
    policy,
    id,
    model,
    endpoint,
    status,
    round(total_seconds::numeric, 2) AS total_seconds,
    round(first_token_seconds::numeric, 2) AS first_token_seconds,
    num_prompt_tokens,
    num_completion_tokens,
    round((num_completion_tokens / nullif(total_seconds - first_token_seconds, 0))::numeric, 1) AS tokens_per_second
FROM v1.exchanges
WHERE id >= v1.first_id_at(:'since') AND NOT is_shadow
ORDER BY total_seconds DESC NULLS LAST, id
LIMIT 20;
