"""`make bench-scale`: one step by one process and by several, with what it costs to share it."""
