"""Why a sibling was not sampled now. None of their sentences holds a prompt or an answer.

SiblingError
├── BusyError        traffic comes first: later, and nothing is counted
└── SamplingError    the server failed, or answered something else: tried again, a bounded number of times
"""

from trainer.errors import TrainerError


class SiblingError(TrainerError):
    """No sibling was sampled."""


class BusyError(SiblingError):
    """No model server is idle."""


class SamplingError(SiblingError):
    """The model server did not answer as it should."""
