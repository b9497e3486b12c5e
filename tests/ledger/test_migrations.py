import threading

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Row, TextClause, text

from ledger.database import check_database, sync_engine
from ledger.errors import LedgerError, SchemaBehindError
from ledger.schema import EXPECTED_REVISION, REVISIONS
from ledger.tables import metadata
from migrations import migrate, migration_config
from migrations.comparison import is_ours

CONSTRAINTS = text("""
    SELECT conrelid::regclass::text || ' ' || conname, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
        AND conrelid::regclass::text = ANY (:tables) ORDER BY 1
""")
INDEXES = text(
    "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename = ANY (:tables) ORDER BY 1"
)


def read(url: str, *statements: TextClause) -> list[list[Row[tuple[object, ...]]]]:
    engine = sync_engine(url)
    with engine.connect() as connection:
        rows = [connection.execute(s, {"tables": list(metadata.tables)}).all() for s in statements]
    engine.dispose()
    return rows


def test_there_is_one_head_and_the_code_expects_it() -> None:
    """B091."""
    scripts = ScriptDirectory.from_config(migration_config())
    assert scripts.get_heads() == [EXPECTED_REVISION]
    assert tuple(reversed([script.revision for script in scripts.walk_revisions()])) == REVISIONS


def test_autogenerate_finds_no_difference_between_tables_and_migrations(connection: Connection) -> None:
    """B091."""
    context = MigrationContext.configure(
        connection, opts={"include_name": is_ours, "compare_type": True, "compare_server_default": True}
    )
    ours = [diff for diff in compare_metadata(context, metadata) if "alembic_version" not in str(diff)]
    assert ours == []


def test_constraints_and_indexes_are_those_of_the_tables(database_url: str, empty_database_url: str) -> None:
    engine = sync_engine(empty_database_url)
    metadata.create_all(engine)
    engine.dispose()
    assert read(database_url, CONSTRAINTS, INDEXES) == read(empty_database_url, CONSTRAINTS, INDEXES)


def test_twenty_starters_migrate_an_empty_database_at_once(empty_database_url: str) -> None:
    """B090."""
    failures: list[BaseException] = []

    def start() -> None:
        try:
            migrate(empty_database_url)
        except BaseException as error:  # noqa: BLE001 - reported below
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert read(empty_database_url, text("SELECT version_num FROM alembic_version")) == [
        [(EXPECTED_REVISION,)]
    ]


def test_up_down_up(empty_database_url: str) -> None:
    migrate(empty_database_url)
    migrate(empty_database_url, "base")
    left = text(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v')"
    )
    assert read(empty_database_url, left) == [[("alembic_version",)]]
    migrate(empty_database_url)
    migrate(empty_database_url)


OLD_ROWS = text("""
    WITH project AS (INSERT INTO projects (id, name) VALUES (gen_random_uuid(), 'old') RETURNING id)
    INSERT INTO exchanges (id, trajectory_id, project_id, policy_id, version, request_id, choice_index, endpoint,
        is_streamed, requested_model, status, is_delivered, request, started_at, is_trainable, untrainable_reason)
    SELECT CAST(month || '-b8b5-7c3e-9d4a-0000000' || n AS uuid), gen_random_uuid(), project.id, project.id, 0, '', 0,
        '/v1/completions', false, 'm', 'failed', false, '{}', now(), false, 'failed'
    FROM project, generate_series(10000, 10999) AS n, unnest(ARRAY['01a20000', '01910000']) AS month
""")
LEFT = text("SELECT count(*), count(*) FILTER (WHERE request_id = '') FROM exchanges")
UNINDEXED = text("""
    SELECT c.relname, i.relname FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid, pg_class AS i
    JOIN pg_index AS x ON x.indexrelid = i.oid
    WHERE inhparent = 'exchanges'::regclass AND x.indrelid = 'exchanges'::regclass
        AND (NOT x.indisvalid OR NOT EXISTS (
            SELECT FROM pg_inherits AS p JOIN pg_index AS y ON y.indexrelid = p.inhrelid
            WHERE p.inhparent = i.oid AND y.indrelid = c.oid AND y.indisvalid))
""")


VIEWS = text("""
    SELECT c.relname, pg_get_viewdef(c.oid), a.attname, col_description(c.oid, a.attnum), obj_description(c.oid),
        CAST(c.relacl AS text)
    FROM pg_class AS c LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
    WHERE c.relnamespace = 'v1'::regnamespace AND c.relkind = 'v' ORDER BY c.relname, a.attnum
""")


@pytest.mark.parametrize("revision", ["0007", "0009", "0010"])
def test_the_views_of_an_older_schema_come_back_as_they_were(empty_database_url: str, revision: str) -> None:
    migrate(empty_database_url, revision)
    before = read(empty_database_url, VIEWS)
    migrate(empty_database_url)
    assert len(read(empty_database_url, VIEWS)[0]) > len(before[0])
    migrate(empty_database_url, revision)
    assert read(empty_database_url, VIEWS) == before


def write(url: str, *statements: str | TextClause) -> None:
    engine = sync_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement) if isinstance(statement, str) else statement)
    engine.dispose()


def test_rows_of_an_older_schema_survive_the_way_up_down_and_up(empty_database_url: str) -> None:
    """Rows of this month and of the DEFAULT partition; the new columns hold what is known of them: nothing."""
    migrate(empty_database_url, "0001")
    write(empty_database_url, OLD_ROWS)
    for revision in ("head", "0002", "head"):
        migrate(empty_database_url, revision)
        assert read(empty_database_url, LEFT) == [[(2000, 2000)]]
    new = text("SELECT DISTINCT num_retries, prompt_index, key_id, identified_by FROM v1.exchanges")
    engine = sync_engine(empty_database_url)
    with engine.connect() as connection:
        assert connection.execute(new).all() == [
            (0, 0, None, None)
        ]  # its policy is gone: it is shown all the same
        assert connection.execute(text("SELECT DISTINCT num_retries, identified_by FROM exchanges")).all() == [(0, None)]  # fmt: skip
    engine.dispose()
    assert read(empty_database_url, UNINDEXED) == [[]]


def test_a_migration_that_broke_off_is_started_again(empty_database_url: str) -> None:
    """As if killed between two index builds: columns and some indexes are there, one index is not valid."""
    migrate(empty_database_url, "0003")
    write(
        empty_database_url,
        "UPDATE alembic_version SET version_num = '0002'",
        "DROP INDEX ix_exchanges_awaiting",
        "CREATE INDEX exchanges_default_awaiting_idx ON exchanges_default (continues_sha256)",
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'exchanges_default_awaiting_idx'::regclass",
    )
    migrate(empty_database_url)
    assert read(empty_database_url, UNINDEXED) == [[]]
    assert read(empty_database_url, text("SELECT version_num FROM alembic_version")) == [
        [(EXPECTED_REVISION,)]
    ]


def test_the_schema_check_wants_a_migration_and_accepts_a_newer_one(
    connection: Connection, empty_database_url: str
) -> None:
    check_database(connection)
    connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    check_database(connection)
    engine = sync_engine(empty_database_url)
    with engine.connect() as empty, pytest.raises(SchemaBehindError, match="slipstream migrate"):
        check_database(empty)
    engine.dispose()


def test_migrate_leaves_a_newer_schema_alone(connection: Connection, database_url: str) -> None:
    connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    connection.commit()
    migrate(database_url)
    assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "9999"


def test_a_table_in_use_stops_the_migration_with_a_remedy(
    connection: Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration must not queue all traffic behind a lock that it cannot get."""
    for name, value in (("LOCK_TIMEOUT_SECONDS", 0.1), ("PAUSE_SECONDS", 0.1), ("ATTEMPTS", 3)):
        monkeypatch.setattr(f"migrations.{name}", value)
    connection.execute(text("LOCK TABLE step_samples"))
    with pytest.raises(LedgerError, match="pg_stat_activity"):
        migrate(database_url, "base")
