"""The proxy is enough: partitions are made while nothing else runs, and a call never fails for want of one."""

from pathlib import Path

from sqlalchemy import Engine, text
from structlog.testing import capture_logs

from tests.fakes.vllm import FakeVllm
from tests.proxy.conftest import StartProxy
from tests.proxy.running import eventually, running_proxy, settings_for

PARTITIONS = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'exchanges'::regclass"
DROP = text("""
    DO $$ DECLARE part text; BEGIN
        FOR part IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent::regclass::text
            IN ('exchanges', 'trajectories', 'reward_events') AND inhrelid::regclass::text NOT LIKE '%default'
        LOOP EXECUTE 'DROP TABLE ' || part; END LOOP;
    END $$
""")


def test_a_proxy_alone_makes_the_partitions(start_proxy: StartProxy, engine: Engine) -> None:
    """As if it had run for a year since the last migration; what waited in DEFAULT has moved."""
    with engine.begin() as connection:
        connection.execute(DROP)
    proxy = start_proxy()
    eventually(lambda: proxy.rows(PARTITIONS)[0][0] == 5)
    proxy.chat()
    proxy.exchanges(1)
    assert proxy.rows("SELECT count(*) FROM exchanges_default")[0][0] == 0


def test_without_the_right_to_make_one_calls_are_recorded_in_default(
    engine: Engine, vllm: FakeVllm, tmp_path: Path
) -> None:
    """A proxy whose role owns nothing: it says so in its log, and DEFAULT takes the rows."""
    with engine.begin() as connection:
        connection.execute(DROP)
        connection.execute(text("DROP ROLE IF EXISTS slipstream_test_plain"))
        connection.execute(text("CREATE ROLE slipstream_test_plain LOGIN"))
        connection.execute(text("GRANT USAGE ON SCHEMA v1 TO slipstream_test_plain"))
        connection.execute(
            text(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO slipstream_test_plain"
            )
        )
        connection.execute(text("GRANT SELECT ON ALL TABLES IN SCHEMA v1 TO slipstream_test_plain"))
    plain = str(engine.url.set(username="slipstream_test_plain").render_as_string(hide_password=False))
    try:
        with capture_logs() as logs, running_proxy(settings_for(plain, vllm.url, tmp_path), engine) as proxy:
            assert proxy.chat().status_code == 200
            proxy.exchanges(1)
            eventually(lambda: any(entry["event"] == "partitions_not_made" for entry in logs))
            [said] = [entry for entry in logs if entry["event"] == "partitions_not_made"]
            assert said["error"] == "InsufficientPrivilege"
            assert proxy.rows("SELECT count(*) FROM exchanges_default")[0][0] == 1
    finally:
        with engine.begin() as connection:
            connection.execute(text("DROP OWNED BY slipstream_test_plain"))
