"""Alembic's entry point. It runs on the connection that `migrations.migrate` opened, and never on its own."""

from alembic import context

from ledger.tables import metadata
from migrations.comparison import is_ours

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("migrations run through `slipstream migrate`, which takes the lock that they need")

context.configure(
    connection=connection,
    target_metadata=metadata,
    include_name=is_ours,
    compare_server_default=True,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
