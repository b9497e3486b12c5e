"""Where a call is durable before its last byte leaves, and until Postgres has it. docs/decisions/0001-capture-and-spool.md."""
