-- What each published step read, and did: reward, gradient, tokens that it learned from, and for what most others were left out.
SELECT
    m.project,
    m.policy,
    m.version,
    round(CAST(m.reward_mean AS numeric), 3) AS reward,
    round(CAST(m.grad_norm AS numeric), 3) AS gradient,
    round(CAST(m.entropy AS numeric), 3) AS entropy,
    m.tokens_used,
    m.tokens_dropped,
    d.reason AS mostly
FROM v1.step_metrics AS m
LEFT JOIN LATERAL (
    SELECT reason FROM v1.step_drops WHERE step_id = m.step_id ORDER BY num_tokens DESC, reason LIMIT 1
) AS d ON true
WHERE m.state = 'published'
ORDER BY m.project, m.policy, m.version DESC;
