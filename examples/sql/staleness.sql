-- How stale the samples of each step were, and what was left out for which reason.
SELECT
    project,
    policy,
    version,
    count(*) FILTER (WHERE is_used) AS num_used,
    round(avg(staleness) FILTER (WHERE is_used), 2) AS staleness,
    max(staleness) FILTER (WHERE is_used) AS max_staleness,
    count(*) FILTER (WHERE NOT is_used) AS num_left_out,
    mode() WITHIN GROUP (ORDER BY reason) AS usual_reason
FROM v1.lineage
GROUP BY project, policy, version
ORDER BY project, policy, version DESC;
