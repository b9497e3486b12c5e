"""Reward events: what is posted, what counts, and what it makes together."""
