"""A step by hand on the groups that are ready: no count, floor, hours or interval, but the same ceiling."""

from collections import Counter
from dataclasses import replace

from ledger.groups.readiness import Readiness
from ledger.groups.waiting import scored_groups
from ledger.vocabulary import GroupWaitsFor, StepKind
from trainer.beginning import Asked, Beginning, Refusal
from trainer.ready import groups_now, with_room

MOST_COUNTED = 200
NOTHING_SCORED = "No open group has a reward that counts: reward some calls, and ask again."


def take(asked: Asked) -> Beginning | Refusal:
    """With `skip_grace`, also those that wait for nothing but the end of their grace period."""
    when = asked.settings.readiness()
    if asked.request.arguments.get("skip_grace"):
        when = replace(when, grace_seconds=0.0)
    found = groups_now(asked.connection, asked.policy.id, asked.settings, asked.among, when)
    ready = with_room(found, asked.settings)
    if not ready:
        return Refusal(what_is_missing(asked, when))
    return Beginning(StepKind.GRPO, asked.settings.learning(), tuple(group.group_id for group in ready))


def what_is_missing(asked: Asked, when: Readiness) -> str:
    """Example: "No group is ready: of 3 with a reward, 1 wait for grace, 2 wait for scores; …"."""
    found = scored_groups(asked.connection, asked.policy.id, when, limit=MOST_COUNTED)
    if not found:
        return NOTHING_SCORED
    numbers = Counter(word for group in found for word in group.waits_for)
    words = ", ".join(f"{number} wait for {word}" for word, number in sorted(numbers.items()))
    is_grace = any(group.waits_for == (GroupWaitsFor.GRACE,) for group in found)
    remedy = "skip_grace takes those that wait for grace alone, " if is_grace else ""
    return (
        f"No group is ready: of {len(found)} with a reward, {words}; {remedy}"
        "`slipstream train --dry-run` lists them."
    )
