"""Errors of the ledger.

LedgerError
├── DatabaseUnreachableError
├── SchemaBehindError
├── SettingsError
├── KeyRefusedError
├── SpoolError
│   └── SpoolFullError
└── RewardRefusedError          (each carries the HTTP status the proxy answers with)
    ├── RewardConflictError     409
    ├── RewardOutOfRangeError   422
    ├── ChoiceNeededError       422
    └── ComparisonRefusedError  422
"""


class LedgerError(Exception):
    """The ledger could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class DatabaseUnreachableError(LedgerError):
    """Postgres does not answer at DATABASE_URL: check the address, the password and that the server runs."""


class SchemaBehindError(LedgerError):
    """The database schema is behind this version of Slipstream: run `slipstream migrate`."""


class SettingsError(LedgerError):
    """The settings cannot be used."""


class KeyRefusedError(LedgerError):
    """The key cannot be made, or found."""


class StepArgumentError(LedgerError):
    """A step of this kind cannot be asked for so."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param


class SpoolError(LedgerError):
    """The spool directory cannot be used: check SLIPSTREAM_SPOOL, its permissions and free space."""


class SpoolFullError(SpoolError):
    """The spool cannot be written: free disk space below SLIPSTREAM_SPOOL."""


class RewardRefusedError(LedgerError):
    """The reward was refused."""

    status = 422
    param: str | None = None


class RewardConflictError(RewardRefusedError):
    """A reward with this id exists with other content: use a new id to change a judgement."""

    status = 409


class RewardOutOfRangeError(RewardRefusedError):
    """The reward is outside the policy's range."""

    param = "reward"


class ChoiceNeededError(RewardRefusedError):
    """This call has several choices: add "choice": k to say which one is judged."""

    param = "choice"


class ComparisonRefusedError(RewardRefusedError):
    """Both sides are the same: name two trajectories, or two replies."""

    param = "other"
