"""The figures of a training step: what `training_steps.metrics` holds, and with it v1.step_metrics, /metrics and the sinks.

Invariant: this is the whole list. A step writes no other figure, the view has a column for each, docs/training.md a line.
New ones go to the end of their part here, and to the end of the view.
"""

from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    REWARD = "reward"  # on the scale of the policy's rewards
    SHARE = "share"  # 0 to 1
    RATIO = "ratio"
    NATS = "nats"
    NUMBER = "number"  # without a unit
    COUNT = "count"
    TOKENS = "tokens"
    VERSIONS = "versions"
    SECONDS = "seconds"
    MIB = "MiB"


class Part(StrEnum):
    """What a figure speaks of: where TensorBoard and W&B show it."""

    REWARDS = "rewards"
    BATCH = "batch"
    LENGTHS = "lengths"
    LOSS = "loss"
    UPDATE = "update"
    COPYING = "copying"  # sft and dpo
    SECONDS = "seconds"
    MEMORY = "memory"
    PUBLISHING = "publishing"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number a step. `is_whole`: a bigint in SQL; else double precision."""

    name: str
    part: Part
    unit: Unit
    meaning: str
    is_whole: bool = False


def _whole(name: str, part: Part, unit: Unit, meaning: str) -> Figure:
    return Figure(name, part, unit, meaning, is_whole=True)


FIGURES = (
    Figure("reward_mean", Part.REWARDS, Unit.REWARD, "Mean reward of the trajectories that the step read."),
    Figure("reward_spread", Part.REWARDS, Unit.REWARD, "Standard deviation of these rewards."),
    Figure("reward_min", Part.REWARDS, Unit.REWARD, "The lowest of them."),
    Figure("reward_max", Part.REWARDS, Unit.REWARD, "The highest of them."),
    Figure("advantage_spread", Part.REWARDS, Unit.REWARD, "Standard deviation of the exchanges' advantages."),
    Figure("frac_groups_without_variance", Part.REWARDS, Unit.SHARE, "Groups whose rewards are all alike."),
    _whole("num_groups", Part.BATCH, Unit.COUNT, "Groups that the step read."),
    _whole("num_groups_without_signal", Part.BATCH, Unit.COUNT, "Groups of which nothing was used."),
    _whole("num_groups_postponed", Part.BATCH, Unit.COUNT, "Groups left to the next step: no room for their tokens."),
    _whole("num_trajectories", Part.BATCH, Unit.COUNT, "Trajectories that the step read."),
    _whole("num_used_exchanges", Part.BATCH, Unit.COUNT, "Exchanges that are learned from."),
    _whole("tokens_used", Part.BATCH, Unit.TOKENS, "Sampled tokens of these exchanges."),
    Figure("staleness_mean", Part.BATCH, Unit.VERSIONS, "How old the used exchanges are: the parent's version minus theirs."),
    _whole("staleness_max", Part.BATCH, Unit.VERSIONS, "The oldest of them."),
    Figure("prompt_tokens_mean", Part.LENGTHS, Unit.TOKENS, "Mean tokens before each used completion, earlier turns included."),
    _whole("prompt_tokens_max", Part.LENGTHS, Unit.TOKENS, "The longest of them."),
    Figure("completion_tokens_mean", Part.LENGTHS, Unit.TOKENS, "Mean tokens of the used completions."),
    _whole("completion_tokens_max", Part.LENGTHS, Unit.TOKENS, "The longest of them."),
    Figure("loss", Part.LOSS, Unit.NUMBER, "The loss before the update. Near 0 while a step learns: its gradient is not."),
    Figure("ratio_mean", Part.LOSS, Unit.RATIO, "Mean probability of a sampled token now, relative to when it was sampled."),
    Figure("ratio_max", Part.LOSS, Unit.RATIO, "The largest of these ratios."),
    Figure("ratio_min", Part.LOSS, Unit.RATIO, "The smallest of these ratios."),
    Figure("ratio_high_fraction", Part.LOSS, Unit.SHARE, "Tokens whose ratio is above 2."),
    Figure("ratio_low_fraction", Part.LOSS, Unit.SHARE, "Tokens whose ratio is below 1/2."),
    Figure("sequence_ratio_mean", Part.LOSS, Unit.RATIO, "Mean over exchanges of the geometric mean of their tokens' ratios."),
    Figure("sequence_ratio_max", Part.LOSS, Unit.RATIO, "The largest of these geometric means."),
    Figure("clipped_fraction", Part.LOSS, Unit.SHARE, "Tokens whose ratio the loss bounds."),
    Figure("masked_fraction", Part.LOSS, Unit.SHARE, "Tokens outside SLIPSTREAM_TRUST_LOG_RATIO: not learned from."),
    Figure("clipped_exchange_fraction", Part.LOSS, Unit.SHARE, "Exchanges with a token whose ratio the loss bounds."),
    Figure("masked_exchange_fraction", Part.LOSS, Unit.SHARE, "Exchanges with a masked token."),
    Figure("bounded_exchange_fraction", Part.LOSS, Unit.SHARE, "Exchanges with either."),
    Figure("logprob_difference", Part.LOSS, Unit.NATS, "Mean distance between recomputed and sampled logprobs."),
    Figure("approximate_kl", Part.LOSS, Unit.NATS, "Divergence (k3) of the present policy from the one that sampled, a token."),
    Figure("base_kl", Part.LOSS, Unit.NATS, "Divergence (k3) of the policy from the base model, a token; only where SLIPSTREAM_KL is above 0."),
    Figure("entropy", Part.LOSS, Unit.NATS, "Mean entropy of the policy where tokens were sampled."),
    Figure("policy_logprob", Part.LOSS, Unit.NATS, "Mean logprob that the policy gives the tokens learned from."),
    Figure("grad_norm", Part.UPDATE, Unit.NUMBER, "Norm of the gradient, before it is clipped."),
    Figure("learning_rate", Part.UPDATE, Unit.NUMBER, "The learning rate of this step, warm-up included."),
    _whole("num_trained_tokens", Part.UPDATE, Unit.TOKENS, "Tokens in the loss, the masked ones included."),
    _whole("num_rows", Part.UPDATE, Unit.COUNT, "Packed rows that went through the model."),
    _whole("num_packed_tokens", Part.UPDATE, Unit.TOKENS, "Tokens of these rows, each common prefix once."),
    _whole("num_unpacked_tokens", Part.UPDATE, Unit.TOKENS, "What the same samples hold one by one."),
    Figure("seconds_claim", Part.SECONDS, Unit.SECONDS, "Looking for groups, and taking them."),
    Figure("seconds_build", Part.SECONDS, Unit.SECONDS, "claimed to built: reading exchanges and rewards, deciding."),
    Figure("seconds_load", Part.SECONDS, Unit.SECONDS, "Reading the samples, the base model and the parent."),
    Figure("seconds_update", Part.SECONDS, Unit.SECONDS, "Loss, gradients, optimizer: built to updated with the loading."),
    Figure("seconds_save", Part.SECONDS, Unit.SECONDS, "updated to saved: checkpoint and adapter on disk."),
    Figure("seconds_publish", Part.SECONDS, Unit.SECONDS, "saved to published, the last attempt: loading and probing on every replica."),
    Figure("loss_first", Part.COPYING, Unit.NUMBER, "sft: the loss of the first batch."),
    Figure("loss_last", Part.COPYING, Unit.NUMBER, "sft: the loss of the last batch."),
    Figure("loss_before", Part.COPYING, Unit.NUMBER, "dpo: the loss before the step; `loss` is after it."),
    Figure("accuracy", Part.COPYING, Unit.SHARE, "dpo: pairs whose preferred answer gained more than the other, after the step."),
    Figure("accuracy_before", Part.COPYING, Unit.SHARE, "dpo: the same before the step."),
    Figure("margin", Part.COPYING, Unit.NATS, "dpo: by how much more, on average, after the step."),
    Figure("margin_before", Part.COPYING, Unit.NATS, "dpo: the same before the step."),
    Figure("beta", Part.COPYING, Unit.NUMBER, "dpo: how strongly the base model is held to."),
    _whole("num_found", Part.COPYING, Unit.COUNT, "sft, dpo: answers or comparisons that were found."),
    _whole("num_pairs", Part.COPYING, Unit.COUNT, "dpo: comparisons that are learned from."),
    _whole("num_epochs", Part.COPYING, Unit.COUNT, "sft, dpo: how often each is gone through."),
    _whole("num_optimizer_steps", Part.COPYING, Unit.COUNT, "sft, dpo: how often the adapter moved."),
    _whole("num_processes", Part.UPDATE, Unit.COUNT, "Processes that shared the update, where there are several."),
    Figure("process_balance", Part.UPDATE, Unit.SHARE, "The mean work of these, of that of the busiest."),
    _whole("peak_memory_mib", Part.MEMORY, Unit.MIB, "Peak memory of the update: of the GPU, else of the worker's process."),
    _whole("predicted_memory_mib", Part.MEMORY, Unit.MIB, "What the update was predicted to need, the model included."),
    _whole("row_tokens", Part.MEMORY, Unit.TOKENS, "The longest row that memory was predicted to hold; SLIPSTREAM_ROW_TOKENS at most."),
    _whole("num_memory_retries", Part.MEMORY, Unit.COUNT, "How often memory ran out all the same, and shorter rows were taken."),
    Figure("probe_difference", Part.PUBLISHING, Unit.NATS, "Largest difference between a replica's and the trainer's logprobs in the probe."),
    _whole("publish_waits", Part.PUBLISHING, Unit.COUNT, "How often publishing waited for a replica."),
    _whole("publish_refusals", Part.PUBLISHING, Unit.COUNT, "How often a replica refused the adapter."),
)  # fmt: skip
BY_NAME = {figure.name: figure for figure in FIGURES}

# Counts by a word, as objects in `metrics`: which word, and what is counted.
BREAKDOWNS = {
    "num_groups_by_reason": "Groups of which nothing was used, by the reason that most of their exchanges have.",
    "num_exchanges_by_baseline": "Used exchanges, by what they were compared with.",
    "tokens_dropped": "Sampled tokens of exchanges that were not used, by reason.",
    "left_out": "sft, dpo: answers or comparisons that were not used, by reason.",
}

# What a step says of itself beside its figures, and is no number.
FACTS = {
    "has_parent_moments": "Whether the optimizer went on with the parent's moments; false for a first step, and where those were pruned.",
    "gradient_checkpointing": "Whether activations were computed again instead of kept.",
    "source": "sft: where the answers came from.",
    "new_line": "Where another rank or alpha began a new line: after which version, and both shapes.",
}

PHASES = ("claim", "build", "load", "update", "save", "publish")

# Which figures and breakdowns the steps of one kind have, and which are only there where there is something to tell.
OF_COPYING = frozenset({figure.name for figure in FIGURES if figure.part is Part.COPYING} | {"left_out"})
SOMETIMES = frozenset({
    "base_kl", "num_processes", "process_balance", "publish_waits", "publish_refusals",
})  # fmt: skip
