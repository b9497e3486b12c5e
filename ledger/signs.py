"""Signs: what in the figures of a policy's last steps looks wrong, each in one sentence that says what would help. Pure.

Invariant: a healthy line of steps has none, and a loss of 0 is none: what teaches is the gradient (B110, B113).
"""

from collections.abc import Callable, Sequence
from math import fsum
from typing import Any

from ledger.vocabulary import Reason, StepKind, StepState

Row = dict[str, Any]  # of v1.step_metrics, with `drops`

FEW = 3  # steps in a row that are no accident
MANY = 5
ALL_ALIKE = 0.9  # share of groups
RATIO_AWAY = 0.1  # of a mean ratio from 1, where no sample is stale
LOGPROBS_AWAY = 0.1  # nats
MASKED = 0.1
ENTROPY_LEFT = 0.3  # of what it was
GROWN = 1.5  # times


def signs(rows: Sequence[Row]) -> list[str]:
    """`rows`: the last finished steps of one policy, the oldest first."""
    published = [row for row in rows if row["state"] == StepState.PUBLISHED]
    rewarded = [row for row in published if row["kind"] == StepKind.GRPO]
    found = [
        _nothing_learned(rows),
        _failing(rows),
        _all_alike(rows),
        _no_gradient(published),
        _engines_disagree(rewarded),
        _masked(rewarded),
        _entropy(published),
        _gradient_clipped(published),
        _longer(published),
        _stale(rows),
        _waiting(published),
    ]
    return [sentence for sentence in found if sentence]


def _nothing_learned(rows: Sequence[Row]) -> str | None:
    last = _run_at_end(rows, lambda row: row["state"] == StepState.SKIPPED)
    if len(last) < FEW:
        return None
    return f"The last {len(last)} steps learned nothing: {last[-1]['reason'] or 'no reason was recorded'}"


def _failing(rows: Sequence[Row]) -> str | None:
    if not rows or rows[-1]["state"] != StepState.FAILED:
        return None
    return f"The last step failed, and its groups are not tried again: {rows[-1]['reason']}"


def _all_alike(rows: Sequence[Row]) -> str | None:
    last = _known(rows, "frac_groups_without_variance")[-FEW:]
    if len(last) < FEW or min(last) < ALL_ALIKE:
        return None
    return (
        f"In the last {FEW} steps at least {min(last):.0%} of the groups had rewards that are all alike, and taught nothing: "
        "score more finely, sample at a higher temperature, or choose tasks that the model half fails."
    )


def _no_gradient(published: Sequence[Row]) -> str | None:
    if not published or published[-1]["grad_norm"] != 0:
        return None
    return f"Version {published[-1]['version']} had a gradient of exactly 0: nothing was learned."


def _engines_disagree(rows: Sequence[Row]) -> str | None:
    """Fresh samples were drawn by the very weights that the step starts from: their ratio is 1."""
    fresh = [row for row in rows[-FEW:] if row["staleness_max"] == 0 and row["ratio_mean"] is not None]
    if not fresh:
        return None
    row = fresh[-1]
    difference = row["logprob_difference"] or 0.0
    if abs(row["ratio_mean"] - 1) <= RATIO_AWAY and difference <= LOGPROBS_AWAY:
        return None
    return (
        f"vLLM and the trainer disagree about fresh samples (version {row['version']}: mean ratio {row['ratio_mean']:.3g}, "
        f"logprobs {difference:.3g} apart): run `slipstream doctor --check-logprobs`."
    )


def _masked(rows: Sequence[Row]) -> str | None:
    last = _known(rows, "masked_fraction")[-FEW:]
    if len(last) < FEW or min(last) < MASKED:
        return None
    return (
        f"At least {min(last):.0%} of the tokens of the last {FEW} steps lay outside SLIPSTREAM_TRUST_LOG_RATIO and were not "
        "learned from: samples are too stale, or the learning rate is too high."
    )


def _entropy(published: Sequence[Row]) -> str | None:
    values = _known(published, "entropy")
    if len(values) < MANY or values[-1] >= ENTROPY_LEFT * max(values[:-1]):
        return None
    return (
        f"The entropy fell from {max(values[:-1]):.3g} to {values[-1]:.3g} nats: answers become alike, and soon nothing differs. "
        "Lower SLIPSTREAM_LEARNING_RATE, or set SLIPSTREAM_KL."
    )


def _gradient_clipped(published: Sequence[Row]) -> str | None:
    last = _run_at_end(published, lambda row: (row["grad_norm"] or 0) > (row["grad_clip"] or float("inf")))
    if len(last) < MANY:
        return None
    return (
        f"The gradient was clipped in each of the last {len(last)} steps (norm {last[-1]['grad_norm']:.3g}, "
        f"SLIPSTREAM_GRAD_CLIP {last[-1]['grad_clip']:g}): its length says nothing any more; raise the limit."
    )


def _longer(published: Sequence[Row]) -> str | None:
    values = _known(published, "completion_tokens_mean")
    if len(values) < 2 * FEW:
        return None
    before, now = fsum(values[:FEW]) / FEW, fsum(values[-FEW:]) / FEW
    if now < GROWN * before:
        return None
    return f"Answers grew from {before:.0f} to {now:.0f} tokens: look whether the reward pays for length."


def _stale(rows: Sequence[Row]) -> str | None:
    """A sample may be a version or two old; where most are too old, rewards come too late."""
    last = rows[-FEW:]
    stale = sum(row["drops"].get(Reason.TOO_STALE, 0) for row in last)
    read = sum((row["tokens_used"] or 0) + (row["tokens_dropped"] or 0) for row in last)
    if stale * 2 <= read:
        return None
    return (
        f"{stale / read:.0%} of the tokens that the last {len(last)} steps read were too stale: reward them sooner, raise "
        "SLIPSTREAM_MAX_STALENESS, or make fewer versions (SLIPSTREAM_STEP_GROUPS)."
    )


def _waiting(published: Sequence[Row]) -> str | None:
    last = published[-1] if published else None
    if (
        last is None
        or last["seconds_waiting"] is None
        or last["seconds_waiting"] <= last["seconds_total"] / 2
    ):
        return None
    if last["seconds_waiting"] < 60:  # noqa: PLR2004 - a minute: less is nobody's sorrow
        return None
    return (
        f"Version {last['version']} took {last['seconds_total']:.0f} s, {last['seconds_waiting']:.0f} of them waiting: for a "
        f"vLLM ({last['publish_waits'] or 0} times), or for a worker that took the step up again (attempt {last['attempt']})."
    )


def _known(rows: Sequence[Row], name: str) -> list[float]:
    return [row[name] for row in rows if row[name] is not None]


def _run_at_end(rows: Sequence[Row], is_so: Callable[[Row], bool]) -> list[Row]:
    """The last rows of which all are so."""
    found: list[Row] = []
    for row in reversed(rows):
        if not is_so(row):
            break
        found.insert(0, row)
    return found
