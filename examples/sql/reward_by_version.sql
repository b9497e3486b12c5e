-- Reward by version, with a 95 % interval of the mean: is the model getting better?
SELECT
    policy,
    last_version AS version,
    count(reward) AS num_scored,
    round(avg(reward)::numeric, 3) AS reward,
    round((avg(reward) - 1.96 * stddev_samp(reward) / sqrt(count(reward)))::numeric, 3) AS ci95_low,
    round((avg(reward) + 1.96 * stddev_samp(reward) / sqrt(count(reward)))::numeric, 3) AS ci95_high
FROM v1.trajectories
WHERE reward IS NOT NULL AND last_version IS NOT NULL
GROUP BY policy, last_version
ORDER BY policy, last_version;
