"""Who was erased, by whom, and what must be erased when it comes later; and which files hold a copy.

No text of what was erased is kept here: subjects stand as digests (docs/decisions/0013-erasure.md).
"""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    ForeignKey,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from ledger.tables.metadata import created_at, metadata, one_of
from ledger.vocabulary import ErasureState, ErasureSubject

erasures = Table(
    "erasures",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7 of the erasure."),
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False, comment="The tenant."),
    Column("subject", Text, nullable=False, comment="What was erased: user or trajectory."),
    Column("subject_sha256", LargeBinary, nullable=False, comment="Digest of the subject's name."),
    Column("state", Text, nullable=False, comment="requested or finished."),
    Column("requested_by", Text, nullable=False, comment="The key's id, or who ran the command."),
    Column("finished_at", DateTime(timezone=True), comment="When the last row was erased."),
    Column(
        "report",
        JSONB,
        nullable=False,
        server_default=text("'{}'"),
        comment="How many rows, which versions were trained on them, which exports hold them.",
    ),
    created_at(),
    one_of("subject", ErasureSubject),
    one_of("state", ErasureState),
    Index("ix_erasures_subject", "project_id", "subject_sha256"),
    comment="Requests to erase a user or a trajectory, and what came of them.",
)

tombstones = Table(
    "tombstones",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False, comment="The tenant."),
    Column(
        "subject_sha256",
        LargeBinary,
        nullable=False,
        comment="Digest of a user's name, or of a name of a trajectory.",
    ),
    Column("erasure_id", Uuid, ForeignKey("erasures.id"), nullable=False, comment="The erasure."),
    Column(
        "before_id",
        Uuid,
        nullable=False,
        comment="Calls with smaller ids, which began before the request, are erased as they are recorded.",
    ),
    created_at(),
    PrimaryKeyConstraint("project_id", "subject_sha256", "erasure_id"),
    Index("ix_tombstones_erasure_id", "erasure_id"),
    Index("ix_tombstones_created_at", "created_at"),  # every writer asks for new ones every two seconds
    comment="What a recorder asks before it writes: calls that were on their way when their user was erased.",
)

exports = Table(
    "exports",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7 of the export."),
    Column("path", Text, nullable=False, comment="Machine and file, or - for the standard output."),
    Column("format", Text, nullable=False, comment="parquet or jsonl."),
    Column("filters", JSONB, nullable=False, comment="What was asked for; {} = everything."),
    Column("requested_by", Text, nullable=False, comment="Who ran the command."),
    Column("num_exchanges", BigInteger, comment="How many rows it has; NULL = it was not finished."),
    Column("finished_at", DateTime(timezone=True), comment="When the file got its name."),
    created_at(),
    comment="Files that left the ledger: an erasure lists those that may hold what it erased.",
)
