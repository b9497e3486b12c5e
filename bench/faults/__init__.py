"""Faults: kill -9, a Postgres that is away, a full disk, under load. Every call is counted from the client's side."""
