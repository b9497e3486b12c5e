"""`slipstream status`: what was captured and learned lately, and how much signal there is, by policy."""

import json
from typing import Annotated, Any

import typer

from slipstream.commands.look import JsonOption, ledger_connection, show_table
from slipstream.commands.step_words import asked_for, why_none

TOP = 5
# What the command counted before it knew policies; sums over them now.
_SUMS = {
    "exchanges": ("num_captured",),
    "trainable_exchanges": ("num_trainable",),
    "trajectories_scored": ("num_scored",),
    "groups_waiting": ("groups", "by_state", "open"),
    "groups_trained": ("groups", "by_state", "trained"),
    "groups_skipped": ("groups", "by_state", "skipped"),
    "steps_published": ("steps", "published"),
    "steps_failed": ("steps", "failed"),
}


def status(
    days: Annotated[float, typer.Option(min=0.001, help="How far back to look.")] = 30,
    effect: Annotated[
        float, typer.Option(min=1e-6, help="The improvement of the mean reward that you would like to see.")
    ] = 0.1,
    as_json: JsonOption = False,
) -> None:
    """What was captured, scored and learned, what is missing until the next step, and whether the rewards suffice."""
    from ledger.rewards.early import early_by_project
    from ledger.signal import read_signal

    with ledger_connection() as connection:
        policies = read_signal(connection, days=days, effect=effect)
        early = early_by_project(connection, days)
    if as_json:
        sums = {name: sum(_at(signal, path) for signal in policies.values()) for name, path in _SUMS.items()}
        typer.echo(json.dumps({"days": days, "effect": effect, "policies": policies, "early": early, **sums}))
        return
    for name, signal in policies.items():
        typer.echo(f"policy {name}: version {signal['live_version']} is live, on {signal['base_model']}")
        show_table(["", ""], [[label, text] for label, text in _rows(signal, days)])
        typer.echo("")
    for project, waiting in early.items():
        typer.echo("\n".join(_early(project, waiting)))


def _early(project: str, waiting: dict[str, Any]) -> list[str]:
    """Of a project, not of a policy: nobody knows whose an unknown id is."""
    age = f"{waiting['oldest_seconds'] / 3600:.1f} hours"
    num_unknown = waiting["num_events"] - waiting["num_without_choice"]
    return [
        f"early judgements of project {project}: {waiting['num_events']}, the oldest since {age}",
        *([f"  {num_unknown}: unknown ids, or another project's"] if num_unknown else []),
        *(
            [f"  {number} of calls with several choices wait for a choice: post again with `choice`"]
            if (number := waiting["num_without_choice"])
            else []
        ),
    ]


def _at(signal: dict[str, Any], path: tuple[str, ...]) -> int:
    for name in path:
        signal = signal.get(name, {})
    return signal or 0  # type: ignore[return-value]  # the last one is a number


def _rows(signal: dict[str, Any], days: float) -> list[tuple[str, str]]:
    used, groups = signal["used"], signal["groups"]
    states = ", ".join(f"{number} {state}" for state, number in groups["by_state"].items())
    return [
        (f"captured in {days:g} days", f"{signal['num_captured']} exchanges, {signal['num_trainable']} trainable"),
        *(("", line) for line in _untrainable(signal)),
        *_shadow(signal["num_shadow"]),
        ("scored", f"{signal['num_scored']} trajectories"),
        *(("", line) for line in _not_counted(signal["events"])),
        ("groups", states or "none"),
        *_flat(groups),
        ("used", f"{used['num_exchanges']} exchanges of {used['num_trajectories']} trajectories, {used['num_tokens']} tokens"),
        ("steps", ", ".join(f"{number} {state}" for state, number in signal["steps"].items()) or "none"),
        *_judged(signal["judged"]),
        ("next step", _next_step(signal["next_step"])),
        ("evidence", _evidence(signal["evidence"])),
    ]  # fmt: skip


def _judged(judged: dict[str, Any]) -> list[tuple[str, str]]:
    """Nothing where no judge was ever asked."""
    if not judged["by_state"]:
        return []
    states = ", ".join(f"{number} {state}" for state, number in judged["by_state"].items())
    told = f"{states}; {judged['cost']:.4f} US dollars, {judged['num_tokens']} tokens"
    return [
        ("judge runs", told),
        *(("", f"newest {state}: {why}") for state, why in judged["newest_reasons"].items()),
    ]


def _shadow(num: int) -> list[tuple[str, str]]:
    return [("", f"{num} shadow siblings beside them, sampled by the worker")] if num else []


def _untrainable(signal: dict[str, Any]) -> list[str]:
    reasons = list(signal["untrainable"].items())[:TOP]
    lines = [f"{number} {reason}" for reason, number in reasons]
    if signal["greedy_share"]:
        share = f"{signal['greedy_share']:.0%} of all calls are greedy (temperature 0) and cannot teach"
        lines.append(f"{share}: SLIPSTREAM_EXPLORE_SHARE lets a share of them be sampled")
    return lines


def _not_counted(events: dict[str, Any]) -> list[str]:
    return [
        f"{number} of metric {metric} do not count: {reason}"
        for metric, of in events.items()
        for reason, number in of["not_counted"].items()
    ]


def _flat(groups: dict[str, Any]) -> list[tuple[str, str]]:
    share = groups["no_variance_share"]
    return [] if share is None else [("", f"{share:.0%} of those that a step looked at had no variance")]


def _next_step(missing: dict[str, Any] | None) -> str:
    if missing is None:
        return "no worker was ever started for this policy: `slipstream worker`"
    seen = f"worker last seen {missing['worker_seen_at']}"
    ready = f"{missing['num_ready']} groups are ready"
    if asked := asked_for(missing):
        return f"{ready}; {asked}; {seen}"
    if not missing["waits_for"]:
        return f"{ready}: the next tick takes them; {seen}"
    return f"{ready}; {why_none(missing)}; {seen}"


def _evidence(evidence: dict[str, Any]) -> str:
    effect = f"an improvement of {evidence['effect']:g}"
    if evidence["num_needed"] is None:
        why = {"too_few": "too few rewards", "all_alike": "all rewards of a version are alike: nothing"}
        return f"{why[evidence['unknown_reason']]} to say how many it takes to see {effect}"
    numbers = f"{evidence['num_rewards']} of {evidence['num_needed']} rewards needed in each of two versions"
    verdict = "the rewards can show" if evidence["could_show"] else "the rewards cannot show yet"
    return f"{verdict} {effect}: {numbers} ({evidence['formula']}, σ² = {evidence['variance']:.3g})"
