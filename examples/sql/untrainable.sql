-- What cannot be trained, by reason, and how much of the traffic it is. The reason `trainable` is what can.
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
SELECT
    project,
    policy,
    coalesce(untrainable_reason, 'trainable') AS reason,
    count(*) AS num_exchanges,
    round(100 * count(*) / sum(count(*)) OVER (PARTITION BY project, policy), 2) AS percent,
    sum(num_completion_tokens) AS num_completion_tokens
FROM v1.exchanges
WHERE id >= v1.first_id_at(:'since') AND NOT is_shadow
GROUP BY 1, 2, 3
ORDER BY 1, 2, 4 DESC, 3;
