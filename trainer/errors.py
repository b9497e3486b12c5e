"""Errors of the trainer.

TrainerError
├── BatchError                 the batch's fault: tried twice, then the step is failed and its groups set aside
├── SurroundingsError          not the batch's fault: the step waits and is tried again
│   └── CheckpointError
├── RankError                  one of the trainer's processes died or fell silent: counted as an attempt
├── AdapterRefusedError        the adapter does not fit what vLLM can load
├── SinkMissingError           the worker does not start without the library of a sink that it was told of
├── StepStoppedError           stop now, give the lease up, nothing is lost
│   └── LeaseLostError
└── PublishError
    ├── ReplicaUnreachableError    wait for it
    │   └── StoreUnreachableError  likewise
    └── ReplicaRefusedError        counted: live stays where it is
"""


class TrainerError(Exception):
    """The trainer could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class BatchError(TrainerError):
    """The batch cannot be learned from."""


class SurroundingsError(TrainerError):
    """Something that the trainer needs is missing: disk space, the base model, or a file."""


class CheckpointError(SurroundingsError):
    """A checkpoint is missing or damaged: restore it from a backup, or roll the policy back."""


class RankError(TrainerError):
    """A process of the trainer died or fell silent."""


class AdapterRefusedError(TrainerError):
    """The adapter is not one that vLLM can load."""


class SinkMissingError(TrainerError):
    """The library of a sink is not installed."""


class StepStoppedError(TrainerError):
    """The worker was asked to stop: another one goes on with the step."""


class LeaseLostError(StepStoppedError):
    """Another worker took the step over."""


class PublishError(TrainerError):
    """The version could not be published."""


class ReplicaUnreachableError(PublishError):
    """A vLLM replica does not answer: check SLIPSTREAM_UPSTREAM_URLS and that it runs."""


class StoreUnreachableError(ReplicaUnreachableError):
    """The adapters' store does not answer: check SLIPSTREAM_ADAPTERS_URL and the keys for it."""


class ReplicaRefusedError(PublishError):
    """A vLLM replica refused the adapter, or answered with another one."""
