"""What was captured, call by call as numbers (capture_processes, capture_hours): docs/decisions/0010-audit.md."""

from sqlalchemy import BigInteger, Column, DateTime, ForeignKey, PrimaryKeyConstraint, Table, Text, func, text
from sqlalchemy.dialects.postgresql import INT8MULTIRANGE, JSONB

from ledger.tables.metadata import created_at, metadata


def _numbers(name: str, comment: str) -> Column[object]:
    return Column(name, INT8MULTIRANGE, nullable=False, server_default=text("'{}'"), comment=comment)


capture_processes = Table(
    "capture_processes",
    metadata,
    Column(
        "process",
        Text,
        primary_key=True,
        comment="Name of its directory in the spool: process id and 12 random digits.",
    ),
    Column("host", Text, nullable=False, comment="The machine it ran on."),
    Column("spool", Text, nullable=False, comment="The directory of the spool on that machine."),
    Column(
        "num_damaged",
        BigInteger,
        nullable=False,
        server_default=text("0"),
        comment="Damaged places found in its segments.",
    ),
    Column(
        "seen_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=func.now(),
        comment="When it, or its adopter, last reported.",
    ),
    Column(
        "ended_at",
        DateTime(timezone=True),
        comment="When all that its spool held was accounted for, and it had ended; NULL = not yet.",
    ),
    created_at(),
    comment="Proxy processes that recorded calls: one for each directory of a spool.",
)

capture_hours = Table(
    "capture_hours",
    metadata,
    Column(
        "process",
        Text,
        ForeignKey("capture_processes.process"),
        nullable=False,
        comment="The process that accepted the calls.",
    ),
    Column("hour", DateTime(timezone=True), nullable=False, comment="The hour of the calls' ids (UTC)."),
    Column(
        "num_accepted",
        BigInteger,
        nullable=False,
        comment="Calls accepted, as far as the process had reported: the highest number.",
    ),
    _numbers("committed", "Numbers of the calls whose exchanges were written."),
    _numbers(
        "interrupted",
        "Of these, the ones whose answer is not recorded: the process died, or the disk was full.",
    ),
    _numbers("rejected", "Numbers of the calls that Postgres refused: files in rejected/ of the spool."),
    Column(
        "uncaptured",
        JSONB,
        nullable=False,
        server_default=text("'{}'"),
        comment="Calls without a record, by reason: asked, spool; and unwritten: the disk did not take the end.",
    ),
    created_at(),
    PrimaryKeyConstraint("process", "hour"),
    comment="The calls of each process and hour, numbered 1, 2, 3 …: a number that is missing is a lost call. `slipstream audit` reads it.",
    postgresql_with={"fillfactor": 50},
)
