"""How it is known that no call is missing: calls are numbered, and Postgres keeps the set of numbers that it has. docs/decisions/0010-audit.md."""
