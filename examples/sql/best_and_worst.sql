-- The five best and the five worst trajectories, with what was asked first and answered last.
WITH scored AS (
    SELECT
        *,
        row_number() OVER (ORDER BY reward DESC, id) AS from_best,
        row_number() OVER (ORDER BY reward, id) AS from_worst
    FROM v1.trajectories
    WHERE reward IS NOT NULL
)
SELECT
    CASE WHEN from_best <= 5 THEN 'best' ELSE 'worst' END AS which,
    round(s.reward::numeric, 3) AS reward,
    s.id,
    left(asked.message, 60) AS asked,
    left(answered.completion_text, 60) AS answered
FROM scored AS s
LEFT JOIN LATERAL (
    SELECT e.messages -> -1 ->> 'content' AS message
    FROM v1.exchanges AS e
    WHERE e.trajectory_id = s.id
    ORDER BY e.id
    LIMIT 1
) AS asked ON true
LEFT JOIN LATERAL (
    SELECT e.completion_text FROM v1.exchanges AS e WHERE e.trajectory_id = s.id ORDER BY e.id DESC LIMIT 1
) AS answered ON true
WHERE from_best <= 5 OR from_worst <= 5
ORDER BY s.reward DESC, s.id;
