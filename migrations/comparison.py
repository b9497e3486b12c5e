"""What autogenerate compares: the tables that the code declares, not their partitions."""

import re
from typing import Any

_PARTITION = re.compile(r"_(\d{4}_\d{2}|default)$")


def is_ours(name: str | None, kind: str, parents: Any) -> bool:  # noqa: ARG001 - alembic's signature
    """False for partitions: they are made by ledger.partitions and follow their parent."""
    return not (kind == "table" and name is not None and _PARTITION.search(name))
