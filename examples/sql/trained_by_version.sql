-- What trained version N: psql -v version=3 -f trained_by_version.sql (without it: the newest version that a step made).
\if :{?version}
\else
SELECT coalesce(max(version), 0) AS version FROM v1.steps WHERE num_used > 0
\gset
\endif
SELECT
    l.project,
    l.policy,
    l.version,
    l.trajectory_id,
    l.sample_version,
    round(l.reward::numeric, 3) AS reward,
    round(l.baseline::numeric, 3) AS baseline,
    l.baseline_kind,
    round(l.advantage::numeric, 3) AS advantage,
    l.num_completion_tokens,
    CASE WHEN e.erased_at IS NULL THEN left(regexp_replace(e.completion_text, '\s+', ' ', 'g'), 40) ELSE '(erased)' END AS answered
FROM v1.lineage AS l
JOIN v1.exchanges AS e ON e.id = l.exchange_id
WHERE l.version = :version AND l.is_used
ORDER BY l.project, l.policy, l.advantage DESC, l.exchange_id;
