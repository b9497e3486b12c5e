-- Drift: length of answers, refusals, truncated answers and tool calls by week and version of the policy.
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
SELECT
    date_trunc('week', started_at, 'UTC')::date AS week,
    project,
    policy,
    min(version) AS oldest,
    max(version) AS newest,
    count(*) AS num_answers,
    round(avg(num_completion_tokens), 1) AS tokens_each,
    round(avg(coalesce(starts_with(completion_text, 'I''m sorry') OR starts_with(completion_text, 'I can''t')
        OR starts_with(completion_text, 'I cannot'), false)::int), 4) AS refused,
    round(avg((finish_reason = 'length')::int), 4) AS truncated,
    round(avg((finish_reason IN ('tool_calls', 'tool_use'))::int), 4) AS tool_calls
FROM v1.exchanges
WHERE id >= v1.first_id_at(:'since') AND status = 'completed' AND version IS NOT NULL AND NOT is_shadow
GROUP BY 1, 2, 3
ORDER BY 2, 3, 1;
