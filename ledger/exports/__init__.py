"""Exports: exchanges, whole, as files that can be trained from again. One row is one exchange (docs/files.md)."""
