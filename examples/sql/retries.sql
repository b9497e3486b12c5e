-- How often clients try again, by route and what became of the first attempt, and how often the retry was answered.
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
SELECT
    again.project,
    again.policy,
    again.endpoint,
    coalesce(first.status, 'not recorded') AS first_status,
    first.error_code AS first_error,
    count(*) AS num_retries,
    count(*) FILTER (WHERE again.status = 'completed') AS num_answered,
    round(avg(extract(epoch FROM again.started_at - first.started_at)), 1) AS seconds
FROM v1.exchanges AS again
LEFT JOIN v1.exchanges AS first ON first.id = again.retry_of
WHERE again.id >= v1.first_id_at(:'since') AND again.num_retries > 0
GROUP BY 1, 2, 3, 4, 5
ORDER BY num_retries DESC, 1, 2, 3, 4, 5;
