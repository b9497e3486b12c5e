"""Alembic migrations, one head: the only thing that changes the schema."""
