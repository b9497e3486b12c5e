-- Groups that cannot teach, and why: nobody scored them, only one member is scored, or all rewards are alike.
SELECT
    policy,
    kind,
    CASE
        WHEN num_scored = 0 THEN 'unscored'
        WHEN num_members = 1 THEN 'one member'
        WHEN num_scored = 1 THEN 'one scored'
        ELSE 'all alike'
    END AS why,
    count(*) AS num_groups,
    sum(num_members) AS num_trajectories,
    round(avg(reward_mean)::numeric, 3) AS reward
FROM v1.groups
WHERE NOT has_signal OR has_signal IS NULL
GROUP BY 1, 2, 3
ORDER BY num_groups DESC, 1, 2, 3;
