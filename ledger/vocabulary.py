"""The words of docs/glossary.md as closed lists. A value that Postgres holds is a member of one of these."""

from enum import StrEnum


class IdentifiedBy(StrEnum):
    """How the proxy found the trajectory of a call; the first that matches wins."""

    PATH = "path"
    HEADER = "header"
    METADATA = "metadata"
    CONVERSATION = "conversation"
    NEW = "new"


class ExchangeStatus(StrEnum):
    COMPLETED = "completed"
    CANCELLED = "cancelled"  # the client hung up; what was produced is recorded
    FAILED = "failed"  # the upstream answered an error, or broke off
    INTERRUPTED = "interrupted"  # the proxy died while the call was running


class GroupKind(StrEnum):
    EXPLICIT = "explicit"  # X-Group-Id
    CHOICES = "choices"  # the n choices of one call
    PROMPT = "prompt"  # same first prompt, tools and policy, within a window


class GroupState(StrEnum):
    """open -> claimed -> trained | skipped. A failed step gives its groups back: claimed -> open."""

    OPEN = "open"
    CLAIMED = "claimed"
    TRAINED = "trained"
    SKIPPED = "skipped"


class StepState(StrEnum):
    """claimed -> built -> updated -> saved -> published, or failed / skipped from any of the first four."""

    CLAIMED = "claimed"
    BUILT = "built"
    UPDATED = "updated"
    SAVED = "saved"
    PUBLISHED = "published"
    FAILED = "failed"
    SKIPPED = "skipped"


ACTIVE_STEP_STATES = (StepState.CLAIMED, StepState.BUILT, StepState.UPDATED, StepState.SAVED)


class VersionState(StrEnum):
    """base is version 0. saved -> published -> retired; saved -> failed. `live` is a column of the policy."""

    BASE = "base"
    SAVED = "saved"
    PUBLISHED = "published"
    RETIRED = "retired"
    FAILED = "failed"


class BaselineKind(StrEnum):
    """The rung of the advantage ladder that a sample's baseline came from."""

    EXPLICIT_GROUP = "explicit_group"
    CHOICES_GROUP = "choices_group"
    PROMPT_GROUP = "prompt_group"


class Reason(StrEnum):
    """Why an exchange, a trajectory or a group was not trained. Nothing is dropped without one (I10)."""

    MISSING_TOKEN_IDS = "missing_token_ids"  # noqa: S105 - not a secret: a reason
    MISSING_LOGPROBS = "missing_logprobs"
    LOGPROBS_MISMATCH = "logprobs_mismatch"
    VERSION_MISMATCH = "version_mismatch"
    GREEDY = "greedy"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    EMPTY_COMPLETION = "empty_completion"
    EXTERNAL_MODEL = "external_model"
    OPTED_OUT = "opted_out"
    DUPLICATE_RETRY = "duplicate_retry"
    UNSCORED = "unscored"
    NO_VARIANCE = "no_variance"
    GROUP_INCOMPLETE = "group_incomplete"
    GROUP_ALREADY_TRAINED = "group_already_trained"
    TOO_STALE = "too_stale"
    TOO_LONG = "too_long"
    ERASED = "erased"


class ErasureSubject(StrEnum):
    """What an erasure is about."""

    USER = "user"
    TRAJECTORY = "trajectory"


class ErasureState(StrEnum):
    """requested -> finished. From `requested` on, what arrives is erased; `finished`: so is what was there."""

    REQUESTED = "requested"
    FINISHED = "finished"


class Scope(StrEnum):
    """What a key may do. admin may do everything."""

    INFER = "infer"  # the data plane, and the list of models
    REWARD = "reward"  # judge
    ADMIN = "admin"  # also read trajectories, steps, versions and metrics


REWARD_METRIC = "reward"
"""The metric that makes the reward of a trajectory; other metrics are stored and do not count yet."""

DEFAULT_PROJECT = "default"

TICK_TASK = "slipstream.tick"
"""The Celery task that looks for something to train: named by whoever nudges, defined by the trainer."""

TRAINING_QUEUE = "training"
