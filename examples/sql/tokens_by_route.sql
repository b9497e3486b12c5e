-- What each route costs: calls, tokens, and money at :prompt_price and :completion_price per million tokens.
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
\if :{?prompt_price}
\else
\set prompt_price 0
\endif
\if :{?completion_price}
\else
\set completion_price 0
\endif
SELECT
    project,
    policy,
    endpoint,
    is_external AS external,
    count(*) AS num_calls,
    sum(num_prompt_tokens) AS prompt_tokens,
    sum(num_completion_tokens) AS completion_tokens,
    round(avg(num_completion_tokens), 1) AS per_call,
    round((sum(num_prompt_tokens) * :prompt_price + sum(num_completion_tokens) * :completion_price) / 1e6, 2) AS cost
FROM v1.exchanges
WHERE id >= v1.first_id_at(:'since') AND NOT is_shadow
GROUP BY project, policy, endpoint, is_external
ORDER BY project, policy, prompt_tokens DESC, endpoint, is_external;
