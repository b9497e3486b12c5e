"""Making a version live as the trainer does, and asking which one answers."""

from sqlalchemy import Engine

from ledger.policies import move_live, read_policies
from tests.proxy.running import RunningProxy


def publish(engine: Engine, version: int) -> None:
    """What the trainer does last: one row, one notice."""
    with engine.begin() as connection:
        [policy] = read_policies(connection)
        move_live(connection, policy.id, version)


def version_of(proxy: RunningProxy) -> str:
    return proxy.chat().headers["x-model-version"]
