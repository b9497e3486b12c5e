"""Fixtures of the ledger's tests."""

import pytest
from sqlalchemy import Connection

from ledger.partitions import ensure_partitions, month_start
from ledger.policies import ensure_policy
from tests.ledger.retained import NOW


@pytest.fixture
def ledger(connection: Connection) -> Connection:
    """Two projects, `default` and `acme`; `default` has another policy, `other`. Partitions from January 2026 on."""
    for name, project in (("default", "default"), ("other", "default"), ("default", "acme")):
        ensure_policy(connection, name=name, base_model="base", project=project)
    connection.commit()
    ensure_partitions(connection, NOW, also=[month_start(NOW, -offset) for offset in range(11)])
    return connection
