"""What is recorded about a step of dpo, and what a person is told when there was nothing to prefer. Pure."""

from typing import Any

from ledger.vocabulary import LeftOut, Reason
from trainer.preference.build import Preference

NOTHING = (
    "There is no comparison of this policy: post some to /v1/comparisons, of answers to the same prompt."
)
HELP: dict[str, str] = {
    LeftOut.PROMPTS_DIFFER: "compare answers to the same prompt: choices of one call (n = 2), or the same request twice",
    LeftOut.SAME_ANSWER: "compare answers that differ: sample at a higher temperature",
    LeftOut.EARLY: "post comparisons of answers that were recorded: is an id wrong?",
    LeftOut.RETRACTED: "they were taken back",
    Reason.MISSING_TOKEN_IDS: "both sides must be answers of this policy, recorded with their token ids",
    Reason.TOO_LONG: "raise SLIPSTREAM_SAMPLE_MAX_TOKENS, if memory allows",
    Reason.ERASED: "they were erased",
}


def metrics_of(batch: Preference) -> dict[str, Any]:
    """Counts, and why what was left out was (I10): of comparisons, since each has two sides."""
    return {
        "num_found": batch.num_found,
        "num_pairs": batch.num_pairs,
        "num_used_exchanges": len(batch.rows),
        "num_trajectories": len({row.trajectory_id for row in batch.rows}),
        "left_out": dict(sorted(batch.left_out.items())),
        "tokens_used": sum(row.num_completion_tokens for row in batch.rows),
    }


def nothing_to_learn(batch: Preference) -> str:
    """One sentence of what was found, one of what would help most."""
    if not batch.num_found:
        return NOTHING
    [(most, _)] = batch.left_out.most_common(1)
    found = ", ".join(f"{number} {reason}" for reason, number in batch.left_out.most_common())
    advice = HELP.get(most, "`left_out` in the step's metrics says more")
    return f"None of {batch.num_found} comparisons is a pair ({found}). What would help: {advice}."
