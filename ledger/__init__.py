"""The record that both halves share: vocabulary, tables, database, spool format.

Postgres is the source of truth. Nothing here imports FastAPI, torch, the proxy or the trainer.
"""
