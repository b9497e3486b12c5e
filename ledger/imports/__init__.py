"""Imports: rows of an export, and chat logs of other models, on the way that every call takes into the ledger."""
