-- Tokens per day and policy.
SELECT
    date_trunc('day', started_at, 'UTC')::date AS day,
    policy,
    count(*) AS num_exchanges,
    sum(num_prompt_tokens) AS num_prompt_tokens,
    sum(num_completion_tokens) AS num_completion_tokens
FROM v1.exchanges
GROUP BY 1, 2
ORDER BY 1 DESC, 2;
