"""An explanation in plain sentences. Pure: made of nothing but its data, so neither can say what the other does not.

Invariant: no text of a caller's prompt, no comment and no key stands in it; ids and names do.
"""

from collections.abc import Iterator
from typing import Any

from ledger.explanation.words import MEANING
from ledger.vocabulary import (
    BaselineKind,
    GroupKind,
    GroupState,
    GroupWaitsFor,
    IdentifiedBy,
    NotCounted,
    StepKind,
    Verdict,
)

Facts = dict[str, Any]
MAX_TURNS = 50

IDENTIFIED = {
    IdentifiedBy.PATH: "by the id in the path of its calls",
    IdentifiedBy.HEADER: "by the id in a header of its calls",
    IdentifiedBy.METADATA: "by the id in the metadata of its calls",
    IdentifiedBy.CONVERSATION: "by its conversation: its messages are ones that were answered before",
    IdentifiedBy.NEW: "as a new one: nothing named it, and no conversation led to it",
}
KINDS = {
    GroupKind.EXPLICIT: "an explicit group, which the caller named",
    GroupKind.CHOICES: "the group of the choices of one call",
    GroupKind.PROMPT: "a prompt group: the same first prompt, tools and policy",
    GroupKind.COMPARISON: "a comparison group: somebody compared its members",
}
BASELINES = {
    BaselineKind.EXPLICIT_GROUP: "its explicit group",
    BaselineKind.CHOICES_GROUP: "the choices of its call",
    BaselineKind.PROMPT_GROUP: "its prompt group",
    BaselineKind.COMPARISON_GROUP: "its comparison group",
    BaselineKind.STORED_GROUP: "an earlier group of the same task, as it was stored",
    BaselineKind.RUNNING: "the running baseline of its route",
}
LEARNED = {
    StepKind.GRPO: "used",
    StepKind.SFT: "imitated the answer to",
    StepKind.DPO: "learned from comparisons of",
}
WAITS_FOR = {
    GroupWaitsFor.SCORES: "rewards of its members",
    GroupWaitsFor.FINAL: "a final reward",
    GroupWaitsFor.MEMBERS: "the members that were declared",
    GroupWaitsFor.BASELINE: "rewards of its route to compare a single one with",
    GroupWaitsFor.GRACE: "the end of its grace period",
}
COUNTS_NOT = {
    NotCounted.EARLY: "its target is not known yet",
    NotCounted.OTHER_METRIC: "the policy does not declare its metric, or gives it no weight",
    NotCounted.SUPERSEDED: "the same source judged again, or took it back",
    NotCounted.RETRACTION: "it takes back what the source said before",
    NotCounted.NO_VALUE: "it has words and no value",
    NotCounted.OUT_OF_RANGE: "it lies outside the range that the policy accepts",
    NotCounted.OUTRANKED: "it is a judge's, and somebody else judged",
}


def story_of(explained: Facts) -> list[str]:
    """From the call to the version, one sentence a step; the last one is the verdict."""
    return [
        *_origin(explained),
        *_turns(explained),
        *_judgements(explained),
        *_group(explained),
        *_steps(explained),
        *_verdict(explained),
    ]


def _origin(facts: Facts) -> Iterator[str]:
    name = f" (the caller's '{facts['external_id']}')" if facts["external_id"] else ""
    how = IDENTIFIED[IdentifiedBy(facts["identified_by"])]
    yield f"Trajectory {facts['id']}{name} of policy {facts['policy']} was identified {how}."
    if facts["choice_index"]:
        yield f"It began as choice {facts['choice_index']} of a call."
    if facts["is_shadow"]:
        yield "The worker sampled it as a shadow sibling; no user saw it."
    if facts["erased_at"]:
        yield f"It was erased at {_moment(facts['erased_at'])}."


def _turns(facts: Facts) -> Iterator[str]:
    turns = facts["exchanges"]
    yield f"It has {_number(len(turns), 'exchange')}."
    for turn in turns[:MAX_TURNS]:
        yield _turn(turn)
    if len(turns) > MAX_TURNS:
        yield f"The other {len(turns) - MAX_TURNS} stand in `exchanges`."


def _turn(turn: Facts) -> str:
    by = (
        f"version {turn['version']}"
        if turn["version"] is not None
        else f"{turn['answered_model']} (external)"
    )
    parts = [f"Exchange {turn['id']} was answered by {by}, {turn['status']}"]
    if turn["is_explored"]:
        parts.append(f"explored: temperature 0 was asked for, {turn['temperature']:g} was sampled with")
    elif turn["temperature"] is not None:
        parts.append(f"temperature {turn['temperature']:g}")
    if turn["num_retries"]:
        of = f" of {turn['retry_of']}" if turn["retry_of"] else ""
        parts.append(f"an SDK's retry{of}")
    if not turn["is_trainable"]:
        parts.append(f"not trainable, {turn['untrainable_reason']}: {MEANING[turn['untrainable_reason']]}")
    return "; ".join(parts) + "."


def _judgements(facts: Facts) -> Iterator[str]:
    for event in facts["events"][-MAX_TURNS:]:
        about = f"exchange {event['exchange_id']}" if event["exchange_id"] else "the trajectory"
        value = "no value" if event["value"] is None else f"{event['value']:g}"
        against = f" (compared with {event['compared_with']})" if event["compared_with"] else ""
        counts = (
            _worth(event) if event["is_counted"]
            else f"It does not count, {event['not_counted_reason']}: {COUNTS_NOT[event['not_counted_reason']]}."
        )  # fmt: skip
        yield f"Source {event['source']} judged {about}: {event['metric']} = {value}{against}. {counts}"
    for event in facts["without_choice"][-MAX_TURNS:]:
        yield (
            f"Source {event['source']} judged call {event['call_id']}, which has several choices, and not which one: "
            f'{event["metric"]} waits for a "choice" and counts for none. Post it again with "choice": k.'
        )
    if facts["reward"] is None:
        yield "It has no reward."
    else:
        rule = f"{facts['combination']} of {_number(facts['num_rewards'], 'score')}"
        yield f"Its reward is {facts['reward']:g} ({rule}; the policy's range is {facts['reward_min']:g} to {facts['reward_max']:g})."


def _worth(event: Facts) -> str:
    weight = "" if event["weight"] == 1 else f", with weight {event['weight']:g}"
    return f"It counts as {event['score']:g}{weight}."


def _group(facts: Facts) -> Iterator[str]:
    group = facts["group"]
    if group is None:
        yield "It is in no group."
        return
    kind = KINDS[GroupKind(group["kind"])]
    size = f" of {group['size']} declared" if group["size"] else ""
    yield (
        f"It is in {kind} ({group['id']}), with {_number(group['num_members'], 'member')}{size}, "
        f"{group['num_scored']} of them scored. The group is {_state(group)}."
    )
    if group["waiting"]:
        yield _waiting(group["waiting"])
    elif group["state"] == GroupState.OPEN:
        yield "No worker was ever started for this policy, so nothing says how long it waits."


def _state(group: Facts) -> str:
    step = f" by step {group['step_version']}" if group["step_version"] is not None else ""
    reason = f", {group['reason']}: {MEANING[group['reason']]}" if group["reason"] else ""
    return f"{group['state']}{step}{reason}"


def _waiting(waiting: Facts) -> str:
    if waiting["is_ready"]:
        return "The group is ready: the next step may take it."
    words = " and ".join(WAITS_FOR[word] for word in waiting["waits_for"])
    until = f", at {_moment(waiting['ready_at'])} at the latest" if waiting["ready_at"] else ""
    return f"The group is not ready: it waits for {words}{until}."


def _steps(facts: Facts) -> Iterator[str]:
    for turn in facts["exchanges"][:MAX_TURNS]:
        for sample in turn["samples"]:
            yield _sample(sample)
            if sample["is_reward_changed"]:
                was, now = _or_none(sample["reward"]), _or_none(turn["reward"])
                yield f"Its reward was changed after that step read it: {was} then, {now} now."


def _sample(sample: Facts) -> str:
    step = f"Step {sample['step_version']} (from version {sample['parent_version']}, {sample['step_state']})"
    what = f"exchange {sample['exchange_id']}"
    compared = ""
    if sample["baseline"] is not None:
        kind = BASELINES[BaselineKind(sample["baseline_kind"])]
        of = (
            f" of {_number(sample['num_baseline_samples'], 'reward')}"
            if sample["num_baseline_samples"]
            else ""
        )
        compared = (
            f" Its reward {_or_none(sample['reward'])} was compared with {sample['baseline']:g}, from {kind}{of}: "
            f"advantage {_or_none(sample['advantage'])}."
        )
    staleness = "" if sample["staleness"] is None else f", staleness {sample['staleness']}"
    if sample["is_used"]:
        return f"{step} {LEARNED[StepKind(sample['step_kind'])]} {what} ({sample['num_completion_tokens']} tokens{staleness}).{compared}"
    return f"{step} left out {what}, {sample['reason']}: {MEANING[sample['reason']]}.{compared}"


def _verdict(facts: Facts) -> Iterator[str]:
    if facts["verdict"] == Verdict.TRAINED:
        yield "Verdict: trained. A published version learned from it."
        return
    word = facts["verdict_reason"]
    said = "left out" if facts["verdict"] == Verdict.LEFT_OUT else "waiting"
    yield f"Verdict: {said}, {word}: {MEANING[word]}."
    for remedy in facts["remedies"]:
        yield f"What would help: {remedy}."


def _moment(moment: Any) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _number(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _or_none(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"
