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
    COMPARISON = "comparison"  # trajectories that somebody compared with each other


class GroupState(StrEnum):
    """open -> claimed -> trained | skipped. A failed step gives its groups back: claimed -> open."""

    OPEN = "open"
    CLAIMED = "claimed"
    TRAINED = "trained"
    SKIPPED = "skipped"


class StepKind(StrEnum):
    """What a step learns from."""

    GRPO = "grpo"  # rewards: the ladder's advantages
    SFT = "sft"  # demonstrations, teachers' answers, the best trajectories
    DPO = "dpo"  # comparisons


class SftSource(StrEnum):
    """What a step of kind sft imitates."""

    DEMONSTRATIONS = "demonstrations"  # corrected answers that somebody posted
    TEACHER = "teacher"  # answers of external models
    BEST = "best"  # the policy's own, of the trajectories with the highest rewards


class LeftOut(StrEnum):
    """Why an answer or a comparison was not learned from in a step of sft or dpo, where no Reason says it."""

    NOT_AN_ANSWER = "not_an_answer"  # the demonstration is not one assistant's message
    SEVERAL_REPLIES = "several_replies"  # it is of a trajectory that has several
    OTHER_ENDPOINT = "other_endpoint"  # its messages are not chat messages
    TEMPLATE_REFUSED = "template_refused"
    OVER_LIMIT = "over_limit"  # SLIPSTREAM_SFT_MAX_SAMPLES
    EARLY = "early"  # a side of the comparison is not recorded
    RETRACTED = "retracted"
    PROMPTS_DIFFER = "prompts_differ"
    SAME_ANSWER = "same_answer"


class RequestState(StrEnum):
    """waiting -> taken -> done, or refused from either: what became of a step that somebody asked for."""

    WAITING = "waiting"
    TAKEN = "taken"
    DONE = "done"
    REFUSED = "refused"


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
    COMPARISON_GROUP = "comparison_group"
    STORED_GROUP = "stored_group"  # of a group of the same task that was trained before
    RUNNING = "running"  # of the policy's route: route_baselines


class Combination(StrEnum):
    """How the judgements that count make one reward: a policy's rule."""

    MEAN = "mean"  # weighted by the metrics' weights
    SUM = "sum"  # of weight x score
    MIN = "min"
    LAST = "last"  # the newest


class Direction(StrEnum):
    """Which end of a metric's range is the good one."""

    HIGHER = "higher"
    LOWER = "lower"


class NotCounted(StrEnum):
    """Why a reward event is not part of the reward: v1.rewards.not_counted_reason."""

    EARLY = "early"
    OTHER_METRIC = "other_metric"
    SUPERSEDED = "superseded"
    RETRACTION = "retraction"
    NO_VALUE = "no_value"
    OUT_OF_RANGE = "out_of_range"
    OUTRANKED = "outranked"


class JudgeRunState(StrEnum):
    """running -> finished | failed. refused: nothing was asked, since the budget is spent."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    REFUSED = "refused"


class SiblingRunState(StrEnum):
    """sampling -> scoring -> finished, or dropped from either."""

    SAMPLING = "sampling"
    SCORING = "scoring"
    FINISHED = "finished"
    DROPPED = "dropped"


class SiblingReason(StrEnum):
    """Why a sibling run was dropped."""

    PROMPT_MISMATCH = "prompt_mismatch"  # the same messages make another prompt now
    GROUP_CLOSED = "group_closed"
    TOO_OLD = "too_old"  # it waited too long for an idle server
    ERASED = "erased"
    UNTRAINABLE = "untrainable"  # what was sampled could teach nothing
    SAMPLING_FAILED = "sampling_failed"
    SCORER_FAILED = "scorer_failed"


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
    TRUNCATED = "truncated"
    NO_BASELINE = "no_baseline"
    RESHAPED = "reshaped"
    ERASED = "erased"


class Verdict(StrEnum):
    """What became of an exchange or a trajectory: `verdict` of v1.exchanges and v1.trajectories."""

    TRAINED = "trained"
    WAITING = "waiting"  # for what `verdict_reason` says: one of WaitsFor
    LEFT_OUT = "left_out"  # `verdict_reason` is a Reason


class WaitsFor(StrEnum):
    """What an exchange, a trajectory or a group that is `waiting` waits for."""

    UNSCORED = "unscored"  # a reward
    PARTIAL = "partial"  # the final reward
    GROUP_OPEN = "group_open"  # the rest of its group, or the next step
    CLAIMED = "claimed"  # the end of the step that has it


class GroupWaitsFor(StrEnum):
    """What an open group waits for, in explanations and plans."""

    SCORES = "scores"  # of its other members
    FINAL = "final"
    MEMBERS = "members"
    BASELINE = "baseline"
    GRACE = "grace"
    STEP = "step"


class StepWaitsFor(StrEnum):
    """What a policy's next step waits for, in plans and in `slipstream status`."""

    GROUPS = "groups"
    TOKENS = "tokens"
    HOURS = "hours"
    INTERVAL = "interval"
    RESUMPTION = "resumption"


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
"""The metric that counts in every policy; others count where a policy declares them (ledger.tables.metrics)."""

COMMENT_METRIC = "comment"
DEMONSTRATION_METRIC = "demonstration"
COMPARISON_METRIC = "comparison"
"""1 for the preferred, 0 for the other: counts in every policy."""

JUDGE_SOURCE = "judge"
"""Its scores count only where nobody else judged."""

SCORER_SOURCE = "scorer"
"""The operator's own program: what it says counts as anybody's."""

DEFAULT_PROJECT = "default"

TICK_TASK = "slipstream.tick"
"""The Celery task that looks for something to train: named by whoever nudges, defined by the trainer."""

TRAINING_QUEUE = "training"
