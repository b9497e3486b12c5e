"""Runs that begin, several at once."""

from collections.abc import Callable
from threading import Thread
from uuid import UUID

from sqlalchemy import Engine

from trainer.judge.group import read_group
from trainer.judge.run import Judge, reserve, wanted
from trainer.judge.transitions import Wanted


def wanted_of(engine: Engine, judge: Judge, group_id: UUID) -> Wanted:
    with engine.connect() as connection:
        group = read_group(connection, group_id)
    assert group is not None
    return wanted(judge, group, reserve(judge, group.attempts(rescores=judge.rescores)))


def at_once(*acts: Callable[[], None]) -> None:
    threads = [Thread(target=act) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
