"""The commands of `slipstream`, by what they do. A module's functions become commands in slipstream/cli.py."""
