"""The planner's statistics forget what was erased."""

import pytest
from sqlalchemy import Connection, text

from ledger.erasure.erase import begin, changed_tables, erase_some
from ledger.erasure.statistics import analyse
from ledger.identifiers import new_call_id
from ledger.recording import record_calls
from tests.ledger.calls import a_call, a_policy
from tests.ledger.test_erasure import ANNA, MARK, a_marked_call, judge


def remembered(connection: Connection, mark: str) -> set[tuple[str, str]]:
    """Where the planner's statistics hold it."""
    query = """
        SELECT tablename, attname FROM pg_stats WHERE schemaname = 'public' AND
            concat(most_common_vals, histogram_bounds, most_common_elems) LIKE '%' || :mark || '%'
    """
    return {(row.tablename, row.attname) for row in connection.execute(text(query), {"mark": mark})}


@pytest.mark.parametrize("tables", ["exchanges, trajectories, reward_events, groups, trajectory_names", None])
def test_the_planner_forgets_what_was_erased(connection: Connection, tables: str | None) -> None:
    """Statistics hold the commonest values of a column; those of an index on names were never made."""
    a_policy(connection)
    other = a_call()
    record_calls(
        connection, [a_marked_call(call_id=new_call_id()), a_marked_call(call_id=new_call_id()), other]
    )
    judge(connection, f"run-{MARK}")
    parts = "SELECT string_agg(inhrelid::regclass::text, ',') FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid WHERE c.relkind = 'r'"
    connection.execute(text(f"ANALYZE {tables or connection.scalar(text(parts))}"))
    assert remembered(connection, MARK)  # the test can fail
    erasure = begin(connection, "default", ANNA, "test")
    while erase_some(connection, erasure):
        pass
    for table in changed_tables(connection, erasure):
        analyse(connection, table)
    assert remembered(connection, MARK) == set()
