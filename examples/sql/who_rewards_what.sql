-- Who rewards what: how many events of each source, key and metric, how many of them count, and what they say.
\if :{?since}
\else
SELECT now() - interval '30 days' AS since
\gset
\endif
WITH events AS MATERIALIZED (
    SELECT project, source, key_name, metric, trajectory_id, score, comment, not_counted_reason
    FROM v1.rewards
    WHERE id >= v1.first_id_at(:'since') AND NOT is_shadow
)
SELECT
    project,
    source,
    key_name,
    metric,
    count(*) AS num_events,
    count(*) FILTER (WHERE not_counted_reason IS NULL) AS num_counted,
    round((avg(score) FILTER (WHERE not_counted_reason IS NULL))::numeric, 3) AS reward,
    count(comment) AS comments,
    left(regexp_replace(mode() WITHIN GROUP (ORDER BY comment), '\s+', ' ', 'g'), 20) AS usual_comment,
    mode() WITHIN GROUP (ORDER BY not_counted_reason) AS why_not_counted
FROM events
GROUP BY project, source, key_name, metric
ORDER BY project, num_events DESC, source, metric;
