"""A step by hand on the groups that are ready: no count, floor, hours or interval, but the same ceiling."""

from dataclasses import replace

from ledger.vocabulary import StepKind
from trainer.beginning import Asked, Beginning, Refusal
from trainer.ready import next_groups

NOTHING = "No group is ready: `slipstream train --dry-run` lists what each one waits for."


def take(asked: Asked) -> Beginning | Refusal:
    """With `skip_grace`, also those that wait for nothing but the end of their grace period."""
    readiness = asked.settings.readiness()
    if asked.request.arguments.get("skip_grace"):
        readiness = replace(readiness, grace_seconds=0.0)
    ready = next_groups(asked.connection, asked.policy.id, asked.settings, asked.among, readiness)
    if not ready:
        return Refusal(NOTHING)
    return Beginning(StepKind.GRPO, asked.settings.learning(), tuple(group.group_id for group in ready))
