"""What retention takes when the trajectories of a month are gone: rows that belonged to them, or told of that month.

Invariant: what goes has nothing left that it points to, or is as old as what went. Bounded batches, as ledger.removal has them.
"""

from sqlalchemy import text

MAX_BATCH = 1_000  # rows a transaction
# Of reward events: those whose trajectory is gone, and early ones whose whole project is over.
REWARD_EVENTS = """
    CASE WHEN x.trajectory_id IS NULL THEN x.project_id = ANY (CAST(:whole_projects AS uuid[]))
    ELSE x.project_id = ANY (CAST(:projects AS uuid[]))
        AND NOT EXISTS (SELECT FROM trajectories AS t WHERE t.id = x.trajectory_id)
    END
"""
# What pointed to trajectories that went with their partition. An open group that nobody is left in is as if it had
# never been.
_POINTS_TO_NOTHING = """
    x.trajectory_id >= :lower AND x.trajectory_id < :upper AND x.project_id = ANY (CAST(:projects AS uuid[]))
    AND NOT EXISTS (SELECT FROM trajectories AS t WHERE t.id = x.trajectory_id)
"""
_NAMES = text(f"""
    DELETE FROM trajectory_names AS n USING (
        SELECT x.project_id, x.name FROM trajectory_names AS x WHERE {_POINTS_TO_NOTHING} LIMIT {MAX_BATCH}
    ) AS gone WHERE n.project_id = gone.project_id AND n.name = gone.name
    RETURNING NULL AS id, n.project_id, NULL AS policy_id
""")  # noqa: S608
_LATER_REWARDS = text(f"""
    DELETE FROM reward_events WHERE id IN (
        SELECT x.id FROM reward_events AS x
        WHERE (x.id < :lower OR x.id >= :upper) AND {_POINTS_TO_NOTHING} LIMIT {MAX_BATCH}
    ) RETURNING id, project_id, NULL AS policy_id
""")  # noqa: S608
_GROUPS = text(f"""
    DELETE FROM groups WHERE id IN (
        SELECT g.id FROM groups AS g
        WHERE g.state = 'open' AND g.policy_id = ANY (CAST(:over AS uuid[])) AND g.last_member_at < :ends_at
            AND NOT EXISTS (SELECT FROM trajectories AS t WHERE t.group_id = g.id)
        LIMIT {MAX_BATCH}
    ) RETURNING NULL AS id, project_id, policy_id
""")  # noqa: S608
# Those of this month, neither of whose events stays: they, too, go in this run, or went.
_COMPARISONS = text(f"""
    DELETE FROM comparisons WHERE id IN (
        SELECT c.id FROM comparisons AS c
        WHERE c.id >= :lower AND c.id < :upper AND c.project_id = ANY (CAST(:projects AS uuid[]))
            AND NOT EXISTS (
                SELECT FROM reward_events AS x
                WHERE x.id IN (c.preferred_event_id, c.other_event_id) AND NOT ({REWARD_EVENTS})
            )
        LIMIT {MAX_BATCH}
    ) RETURNING id, project_id, NULL AS policy_id
""")  # noqa: S608
_RUNS = """
    DELETE FROM {table} WHERE id IN (
        SELECT x.id FROM {table} AS x
        WHERE x.id >= :lower AND x.id < :upper AND x.policy_id = ANY (CAST(:over AS uuid[])) LIMIT {limit}
    ) RETURNING id, project_id, policy_id
"""
_BASELINES = text(f"""
    DELETE FROM route_baselines AS b USING (
        SELECT x.policy_id, x.route, p.project_id FROM route_baselines AS x JOIN policies AS p ON p.id = x.policy_id
        WHERE x.policy_id = ANY (CAST(:over AS uuid[])) AND x.updated_at < :ends_at LIMIT {MAX_BATCH}
    ) AS gone WHERE b.policy_id = gone.policy_id AND b.route = gone.route
    RETURNING NULL AS id, gone.project_id, b.policy_id
""")  # noqa: S608
LEFT_OVER = {
    "trajectory_names": _NAMES,
    "groups": _GROUPS,
    "reward_events": _LATER_REWARDS,
    "comparisons": _COMPARISONS,
    "judge_runs": text(_RUNS.format(table="judge_runs", limit=MAX_BATCH)),
    "sibling_runs": text(_RUNS.format(table="sibling_runs", limit=MAX_BATCH)),
    "route_baselines": _BASELINES,
}
"""By table, in the order in which they go; each statement takes a batch, and says whose its rows were."""
WITH_TRAJECTORIES = ("trajectory_names", "reward_events")
"""Nothing of these is left over as long as trajectories go one by one."""
