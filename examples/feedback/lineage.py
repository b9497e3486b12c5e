"""What the rewards of a run were compared with, asked of the ledger while its stack runs: SQL is an interface."""

from pathlib import Path

import psycopg

from slipstream.local.home import Home

COMPARED_WITH = "SELECT baseline_kind, count(*) FROM v1.lineage WHERE is_used GROUP BY 1 ORDER BY 1"


def compared_with(home: Path) -> dict[str, int]:
    """Used samples by their `baseline_kind`. Example: 5 steps of 48 lone thumbs -> {"running": 240}."""
    url: str = Home.at(home).running()["environment"]["DATABASE_URL"]
    with psycopg.connect(url.replace("postgresql+psycopg://", "postgresql://")) as connection:
        return dict(connection.execute(COMPARED_WITH).fetchall())
