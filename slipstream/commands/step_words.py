"""Why no step begins now, in words made of nothing but the plan's or the status' data."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from ledger.vocabulary import StepWaitsFor

_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    StepWaitsFor.GROUPS: lambda m: f"{m['num_groups_needed']} more groups must be ready",
    StepWaitsFor.TOKENS: lambda m: (
        f"{m['num_tokens_needed']} more tokens are needed (SLIPSTREAM_STEP_MIN_TOKENS)"
    ),
    StepWaitsFor.HOURS: lambda _: "it is outside of SLIPSTREAM_TRAIN_HOURS",
    StepWaitsFor.INTERVAL: lambda m: (
        f"version {m['newest_version']} became live only at {m['published_at']} (SLIPSTREAM_MIN_SECONDS_BETWEEN_VERSIONS)"
    ),
    StepWaitsFor.RESUMPTION: lambda m: (
        f"it is paused since {m['paused_at']}"
        + (f" ({m['paused_reason']})" if m["paused_reason"] else "")
        + ": `slipstream resume`"
    ),
}


def asked_for(missing: Mapping[str, Any]) -> str | None:
    """None where nobody asked for a step by hand; those come before everything else."""
    if not missing["num_requests"]:
        return None
    return f"{missing['num_requests']} asked for by hand: the next tick begins one, or says why not"


def why_none(missing: Mapping[str, Any]) -> str:
    """Example: "5 more groups must be ready and 900 more tokens are needed (…), or it is in 840 seconds"."""
    words = " and ".join(_WORDS[word](missing) for word in missing["waits_for"])
    return f"{words}, or it is {until(missing['due_at'])}" if missing["due_at"] else words


def until(moment: str) -> str:
    due = datetime.fromisoformat(moment)
    seconds = (due - datetime.now(due.tzinfo)).total_seconds()
    return f"in {seconds:.0f} seconds, at {moment}" if seconds > 0 else "the next tick"
