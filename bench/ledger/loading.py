"""A world into Postgres by COPY: tasks in blocks, then the steps. The partitions of all its months are made first."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import psycopg
from sqlalchemy import text

from bench.ledger.blocks import COLUMNS, Block, Line, add_steps, add_task
from bench.ledger.traffic import Traffic
from bench.ledger.world import LINES, Plan, Task, moment
from ledger.database import database_address, sync_engine
from ledger.partitions import ensure_partitions
from ledger.policies import ensure_policy

_TASKS_A_BLOCK = 5_000
_MONTH_DAYS = 28
_FEW = 100_000
_TOLD = 100_000  # a line for each so many


def load(url: str, plan: Plan, traffic: Traffic, tell: Callable[[str], None] = lambda _: None) -> list[Task]:
    """Everything of the world, committed and analysed. The tasks are given back only where they are few."""
    lines, kept = _prepare(url, plan), list[Task]()
    num = told = 0
    plain = database_address(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as connection:
        for tasks in _blocks(traffic.tasks()):
            block = Block(lines)
            for task in tasks:
                add_task(block, task)
            num += len(block.rows["exchanges"])
            _copy(connection, block)
            kept += tasks if plan.num_exchanges <= _FEW else []
            if num // _TOLD > told // _TOLD:
                tell(f"{num:,} exchanges are loaded")
            told = num
        block = Block(lines)
        add_steps(block, plan, traffic.steps.values())
        _copy(connection, block)
        connection.execute("VACUUM (ANALYZE)")
    return kept


def _prepare(url: str, plan: Plan) -> list[Line]:
    engine = sync_engine(url, pool_size=1)
    days = range(0, plan.num_days + _MONTH_DAYS, _MONTH_DAYS)
    with engine.connect() as connection:
        ensure_partitions(connection, also=[moment(plan.since_ms + day * 86_400_000) for day in days])
    with engine.begin() as connection:
        policies = [
            ensure_policy(connection, name=policy, base_model="base", project=project)
            for project, policy in LINES
        ]
        connection.execute(text("UPDATE policies SET live_version = :v"), {"v": plan.num_versions})
    engine.dispose()
    return [Line(policy.project_id, policy.id, policy.name) for policy in policies]


def _blocks(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    waiting = iter(tasks)
    while block := list(islice(waiting, _TASKS_A_BLOCK)):
        yield block


def _copy(connection: "psycopg.Connection[Any]", block: Block) -> None:
    with connection.transaction(), connection.cursor() as cursor:
        for table, rows in block.rows.items():
            if rows:
                with cursor.copy(f"COPY {table} ({COLUMNS[table]}) FROM STDIN") as copy:
                    copy.write("\n".join([*rows, ""]))
