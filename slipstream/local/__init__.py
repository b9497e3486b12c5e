"""The embedded local stack: real servers from wheels, supervised."""
