"""Erasure: the payloads of a user or a trajectory go, what the mathematics need stays (docs/decisions/0013-erasure.md)."""
