"""What each reason, and each thing that is waited for, means in a sentence, and what would help. A test compares the lists."""

from ledger.vocabulary import GroupWaitsFor, Reason, WaitsFor

MEANING: dict[str, str] = {
    Reason.MISSING_TOKEN_IDS: "the model server returned no token ids, and text alone cannot be trained on",
    Reason.MISSING_LOGPROBS: "the model server returned no sampling logprobs",
    Reason.LOGPROBS_MISMATCH: "its logprobs do not fit its tokens",
    Reason.VERSION_MISMATCH: "the server's reply names another version than the one that was asked",
    Reason.GREEDY: "it was sampled at temperature 0: nothing was chosen, so nothing can be preferred",
    Reason.CANCELLED: "the client hung up before the answer was complete",
    Reason.FAILED: "the call, or the step that had claimed its group, failed",
    Reason.INTERRUPTED: "the proxy died while the call was running",
    Reason.EMPTY_COMPLETION: "no token was produced",
    Reason.EXTERNAL_MODEL: "an external model answered it: teacher data, which is kept and never trained",
    Reason.OPTED_OUT: "the caller opted out (`store: false`, or `X-Turn-Type: side`)",
    Reason.DUPLICATE_RETRY: "it is an SDK's retry: of a call and its retries only one is a sample",
    Reason.UNSCORED: "it had no reward when the step read its group",
    Reason.NO_VARIANCE: "its reward equals what it was compared with, so its advantage is 0",
    Reason.GROUP_INCOMPLETE: "too few members of its group could be compared",
    Reason.GROUP_ALREADY_TRAINED: "it came after its group was trained",
    Reason.TOO_STALE: "too many versions lay between it and the step",
    Reason.TOO_LONG: "it is longer than a training sequence may be",
    Reason.TRUNCATED: "it was cut off at its token limit, and the setting leaves such answers out",
    Reason.NO_BASELINE: "its route had too few rewards to compare with; it counts towards the route's running baseline",
    Reason.ERASED: "it was erased",
    WaitsFor.UNSCORED: "it waits for a reward",
    WaitsFor.PARTIAL: "its reward is partial: it waits for the final one, or for its group's deadline",
    WaitsFor.GROUP_OPEN: "it is scored, and waits for the rest of its group or for the next step",
    WaitsFor.CLAIMED: "a step has its group and has not ended yet",
}

_REWARD = "POST /v1/trajectories/{id}/reward: a late reward brings it to the next open group of the same task"
_NOTHING = "Nothing: the row says what happened, and stays as it is"
REMEDY: dict[str, str] = {
    Reason.MISSING_TOKEN_IDS: "Nothing for this row; `slipstream doctor` says whether the model server returns token ids",
    Reason.MISSING_LOGPROBS: "Nothing for this row; `slipstream doctor` says whether the model server returns logprobs",
    Reason.LOGPROBS_MISMATCH: "Nothing for this row; serve with `--logprobs-mode processed_logprobs`, in the trainer's precision",
    Reason.VERSION_MISMATCH: "Nothing for this row; `slipstream doctor` says which versions the servers hold",
    Reason.GREEDY: "Sample at a temperature above 0, or let a share of such calls be explored (SLIPSTREAM_EXPLORE_SHARE)",
    Reason.CANCELLED: "Nothing for this row; read streams to their end",
    Reason.FAILED: "Nothing for this row; `error`, or v1.steps.reason, says what failed",
    Reason.INTERRUPTED: _NOTHING,
    Reason.EMPTY_COMPLETION: _NOTHING,
    Reason.EXTERNAL_MODEL: "Ask the policy instead of a provider's model",
    Reason.OPTED_OUT: "Leave out `store: false` and `X-Turn-Type: side` where a call may teach",
    Reason.DUPLICATE_RETRY: "Nothing: the call that it repeats is the sample",
    Reason.UNSCORED: _REWARD,
    Reason.NO_VARIANCE: "Score more finely, sample at a higher temperature, or choose tasks that the model half fails",
    Reason.GROUP_INCOMPLETE: "Reward two or more answers to the same task, or route more calls alike so that a running baseline forms",
    Reason.GROUP_ALREADY_TRAINED: _REWARD,
    Reason.TOO_STALE: "Reward sooner, or raise SLIPSTREAM_MAX_STALENESS",
    Reason.TOO_LONG: "Raise SLIPSTREAM_SAMPLE_MAX_TOKENS, if memory allows",
    Reason.TRUNCATED: "Raise the calls' token limit, or set SLIPSTREAM_TRAIN_TRUNCATED",
    Reason.NO_BASELINE: "Post more rewards on its route: the next ones are compared with it",
    Reason.ERASED: _NOTHING,
    WaitsFor.UNSCORED: "POST /v1/trajectories/{id}/reward",
    WaitsFor.PARTIAL: 'Post the final reward (without `"final": false`), or wait for the deadline',
    WaitsFor.GROUP_OPEN: "Start a worker: none was ever started for this policy",
    WaitsFor.CLAIMED: "Wait: the step publishes a version, or gives a reason",
}

# Of a scored one in an open group, by what the group waits for.
WAITING_REMEDY: dict[str, str] = {
    GroupWaitsFor.SCORES: "Reward the group's other members, or wait for the group's time",
    GroupWaitsFor.FINAL: REMEDY[WaitsFor.PARTIAL],
    GroupWaitsFor.MEMBERS: "Send the calls of the members that were declared, or wait for the group's deadline",
    GroupWaitsFor.BASELINE: "Reward more calls on its route: it is alone in its group, and is compared with them",
    GroupWaitsFor.GRACE: "Wait: its group's grace period ends by itself",
    GroupWaitsFor.STEP: "Wait: its group has all that it needs, and the next step may take it; "
    "`slipstream train --dry-run` says when that is and why not now, `slipstream train --now` asks for one",
}
