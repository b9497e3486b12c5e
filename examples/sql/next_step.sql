-- What would train next: the 50 oldest open groups that can teach, and how many of their members wait for a reward.
-- A lone score is compared with the running baseline of its route: `slipstream train --dry-run` says whether that suffices.
SELECT
    project,
    policy,
    id AS group_id,
    kind,
    num_members,
    num_scored,
    num_members - num_scored AS num_waiting,
    round(reward_mean::numeric, 3) AS reward,
    round(reward_stddev::numeric, 3) AS reward_stddev,
    date_trunc('second', created_at) AS created_at,
    left(regexp_replace(asked, '\s+', ' ', 'g'), 40) AS asked
FROM v1.groups
WHERE state = 'open' AND (has_signal OR num_scored = 1)
ORDER BY created_at, id
LIMIT 50;
