"""Rows of months ago that come as a file get the partitions of their months."""

from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import Connection, Engine

from ledger.identifiers import first_id_at
from ledger.imports.file import Importer
from ledger.imports.lines import Line
from tests.ledger.calls import a_policy
from tests.ledger.retained import count, has, keep, run

MAY = datetime(2019, 5, 5, tzinfo=UTC)
ASKED = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def imported(engine: Engine, *values: dict[str, object]) -> int:
    lines = [Line(number, value) for number, value in enumerate(values, 1)]
    return Importer(engine).run(lines, lambda: None).num_new


def test_an_old_chat_log_is_no_row_of_default_and_retention_finds_it(
    engine: Engine, connection: Connection
) -> None:
    a_policy(connection)
    connection.commit()
    log = {"messages": ASKED, "created": MAY.timestamp()}
    assert imported(engine, log) == 1
    assert count(connection, "exchanges_2019_05") == count(connection, "trajectories_2019_05") == 1
    keep(connection, 30)
    run(engine, datetime.now(UTC))
    assert count(connection, "exchanges") == 0


def test_a_file_of_made_up_ids_makes_a_bounded_number_of_tables(
    engine: Engine, connection: Connection
) -> None:
    rows = [{"export_version": 1, "id": str(UUID(int=k << 112))} for k in range(1, 300)]
    odd = [{"export_version": 1, "id": id_, "rewards": [None, {"id": 7}]} for id_ in (None, 7, "x", str(first_id_at(datetime(2200, 1, 1, tzinfo=UTC))))]  # fmt: skip
    assert imported(engine, *rows, *odd) == 0
    assert not has(connection, "exchanges_2200_01")
    assert count(connection, "pg_class WHERE relname ~ '^exchanges_\\d{4}_\\d\\d$'") <= 130
