"""Schema v1: its views, what they say of themselves, and who may read them."""

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from ledger.database import sync_engine
from ledger.recording import record_calls
from tests.ledger.calls import a_call, a_choice, a_policy
from tests.ledger.conftest import LoadedWorld

VIEWS = {
    "comparisons",
    "exchange_rewards",
    "exchanges",
    "groups",
    "judge_runs",
    "lineage",
    "metrics",
    "rewards",
    "sibling_runs",
    "step_drops",
    "step_metrics",
    "step_requests",
    "steps",
    "trajectories",
    "trajectory_rewards",
    "verdicts",
    "versions",
}
OURS = """
    c.relnamespace IN ('v1'::regnamespace, 'public'::regnamespace) AND c.relkind IN ('r', 'p', 'v')
        AND NOT c.relispartition AND c.relname <> 'alembic_version'
"""
UNCOMMENTED = text(f"""
    SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE {OURS} AND a.attnum > 0 AND NOT a.attisdropped AND col_description(c.oid, a.attnum) IS NULL
    UNION ALL
    SELECT c.relname FROM pg_class c WHERE {OURS} AND obj_description(c.oid, 'pg_class') IS NULL
    UNION ALL
    SELECT p.proname FROM pg_proc p
    WHERE p.pronamespace = 'v1'::regnamespace AND obj_description(p.oid, 'pg_proc') IS NULL
""")
DISAGREEING = text(
    "SELECT count(*) FROM v1.rewards WHERE is_counted IS DISTINCT FROM (not_counted_reason IS NULL)"
)
REASONS = text("SELECT DISTINCT not_counted_reason FROM v1.rewards")
RELATIONS = text(
    "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
)


def test_schema_v1_holds_the_documented_views(connection: Connection) -> None:
    found = connection.execute(text("SELECT viewname FROM pg_views WHERE schemaname = 'v1'")).scalars()
    assert set(found) == VIEWS


def test_every_table_view_function_and_column_explains_itself(connection: Connection) -> None:
    assert connection.execute(UNCOMMENTED).scalars().all() == []


@pytest.mark.parametrize("view", sorted(VIEWS))
def test_the_reader_reads_each_view(connection: Connection, view: str) -> None:
    connection.execute(text("SET ROLE slipstream_reader"))
    query = text(f"SELECT * FROM v1.{view} WHERE v1.first_id_at(now()) IS NOT NULL")
    assert connection.execute(query).all() == []


def test_the_reader_reads_no_table(connection: Connection) -> None:
    """Partitions included: what a view shows of them is all that an analyst gets."""
    relations = connection.execute(RELATIONS).scalars().all()
    connection.execute(text("SET ROLE slipstream_reader"))
    allowed = text("SELECT has_table_privilege(:name, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')")
    assert len(relations) > 20
    assert [name for name in relations if connection.scalar(allowed, {"name": f"public.{name}"})] == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM api_keys",
        "DELETE FROM v1.versions",
        "UPDATE v1.versions SET state = 'retired'",
        "INSERT INTO v1.rewards (id) VALUES (NULL)",
        "CREATE TABLE v1.t ()",
        "CREATE TABLE public.t ()",
        "CREATE VIEW v1.t AS SELECT 1",
    ],
)
def test_the_reader_reads_nothing_else_and_writes_nothing(connection: Connection, statement: str) -> None:
    connection.execute(text("SET ROLE slipstream_reader"))
    with pytest.raises(DBAPIError, match=r"permission denied|cannot (delete|update|insert)"):
        connection.execute(text(statement))


def test_no_view_shows_the_hash_of_a_key(connection: Connection) -> None:
    columns = text("SELECT column_name FROM information_schema.columns WHERE table_schema = 'v1'")
    assert not {"key_hash", "prefix"} & set(connection.execute(columns).scalars())


def test_whether_a_reward_counts_and_why_not_say_the_same(world: LoadedWorld) -> None:
    """Also with a policy whose range is narrower than another's of its project, and a value on each bound."""
    engine = sync_engine(world.url)
    with engine.connect() as connection:
        assert connection.scalar(DISAGREEING) == 0
        assert set(connection.execute(REASONS).scalars()) == {
            None, "early", "other_metric", "superseded", "retraction", "outranked",
        }  # fmt: skip
        connection.execute(text("UPDATE policies SET reward_max = 0.5 WHERE name = 'support'"))
        assert connection.scalar(DISAGREEING) == 0
        narrow = text("SELECT DISTINCT policy FROM v1.rewards WHERE not_counted_reason = 'out_of_range'")
        assert connection.execute(narrow).scalars().all() == ["support"]
        connection.rollback()
    engine.dispose()


def test_an_exchange_tells_its_tool_calls_in_the_shape_of_each_route(connection: Connection) -> None:
    answers: list[dict[str, object] | None] = [
        {"role": "assistant", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}, {"id": "2"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "1"}]},
        {"output": [{"type": "function_call"}, {"type": "message", "content": []}]},
        None,
    ]
    a_policy(connection)
    record_calls(connection, [a_call(choices=[a_choice(response=answer)]) for answer in answers])
    found = connection.execute(text("SELECT num_tool_calls FROM v1.exchanges ORDER BY id")).scalars().all()
    assert sorted(num or 0 for num in found) == [0, 0, 1, 1, 2]
    assert found.count(None) == 1
