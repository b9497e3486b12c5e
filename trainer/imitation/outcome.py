"""What is recorded about a step of sft, and what a person is told when there was nothing to imitate. Pure."""

from typing import Any

from ledger.vocabulary import LeftOut, Reason, SftSource
from trainer.imitation.build import Imitation

NOTHING = {
    SftSource.DEMONSTRATIONS: "There is no demonstration of this policy: post corrected answers with metric `demonstration`.",
    SftSource.TEACHER: "There is no answer of an external model: ask one through the proxy, or `slipstream import` a chat log.",
    SftSource.BEST: "No trajectory has such a reward: post rewards, or ask for a lower 'min_reward'.",
}
HELP: dict[str, str] = {
    LeftOut.TEMPLATE_REFUSED: "the base model's chat template cannot render them: is there one beside its tokenizer?",
    LeftOut.NOT_AN_ANSWER: "a demonstration is one assistant's message, or its text",
    LeftOut.SEVERAL_REPLIES: "post a demonstration to the reply's id, not to the trajectory's",
    LeftOut.OTHER_ENDPOINT: "only chat completions of other providers can be imitated",
    Reason.TOO_LONG: "raise SLIPSTREAM_SAMPLE_MAX_TOKENS, if memory allows",
    Reason.TRUNCATED: "answers that were cut off are not imitated: allow longer ones",
    Reason.ERASED: "they were erased",
    Reason.OPTED_OUT: "their callers opted out",
}


def metrics_of(batch: Imitation) -> dict[str, Any]:
    """Counts, and why what was left out was (I10). `left_out` has the exact words."""
    used = batch.used
    rewards = [row.reward for row in used if row.reward is not None]
    return {
        "source": str(batch.wish.source),
        "num_found": batch.num_found,
        "num_used_exchanges": len(used),
        "num_trajectories": len({row.trajectory_id for row in used}),
        "left_out": dict(sorted(batch.left_out.items())),
        "tokens_used": sum(row.num_completion_tokens for row in used),
        "reward_mean": sum(rewards) / len(rewards) if rewards else None,
    }


def nothing_to_learn(batch: Imitation) -> str:
    """One sentence of what was found, one of what would help most."""
    if not batch.num_found:
        return NOTHING[batch.wish.source]
    [(most, _)] = batch.left_out.most_common(1)
    found = ", ".join(f"{number} {reason}" for reason, number in batch.left_out.most_common())
    advice = HELP.get(most, "`left_out` in the step's metrics says more")
    return f"None of {batch.num_found} answers can be imitated ({found}). What would help: {advice}."
