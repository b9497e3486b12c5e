"""Scores by a model or by the operator's own service. They are reward events of source `judge` and `scorer`: claims, never orders."""
