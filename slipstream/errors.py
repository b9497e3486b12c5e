"""Errors a user of the command line sees: one sentence with the remedy, exit code 1.

SlipstreamError
├── UsageError           what was asked cannot be done: a taken port, no model directory, a second stack
├── NotRunningError      the command needs a running stack or an address
├── NoVersionError       a step was waited for and made no version
└── ChildFailedError     a server did not start; carries the last lines of its log
"""

from pathlib import Path


class SlipstreamError(Exception):
    """Slipstream could not do what was asked."""


class UsageError(SlipstreamError):
    """What was asked cannot be done."""


class NotRunningError(SlipstreamError):
    """No stack runs in this home: start one with `slipstream up`, or set the addresses in the environment."""


class NoVersionError(SlipstreamError):
    """The step that was asked for made no version."""


class ChildFailedError(SlipstreamError):
    """A child of the stack did not start."""

    def __init__(self, name: str, what: str, remedy: str, log: Path, last_lines: list[str]) -> None:
        super().__init__(f"{name} {what}. {remedy}")
        self.log = log
        self.last_lines = last_lines
