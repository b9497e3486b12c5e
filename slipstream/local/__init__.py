"""The embedded stack of `slipstream up`: real servers from wheels, supervised, with all their state in one folder.

No process outlives its supervisor (docs/decisions/0005-local-stack.md).
"""
