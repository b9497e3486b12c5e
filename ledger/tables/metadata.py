"""One MetaData with a naming convention, so that every constraint has a name a migration can say."""

from collections.abc import Iterable
from enum import StrEnum

from sqlalchemy import CheckConstraint, Column, DateTime, MetaData, func

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def created_at() -> Column[object]:
    return Column(
        "created_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=func.now(),
        comment="When the row was written (UTC).",
    )


def one_of(column: str, members: type[StrEnum] | Iterable[str]) -> CheckConstraint:
    """A check that a text column holds a word of the vocabulary: readable in SQL, extended by a migration."""
    words = ", ".join(f"'{word}'" for word in members)
    return CheckConstraint(f"{column} IN ({words})", name=f"{column}_known")
