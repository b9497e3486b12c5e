"""`slipstream train`: a tick, or a step by hand, now; or with --dry-run what the next step would do, computed here, without worker or model."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledger.vocabulary import DEFAULT_PROJECT, StepKind
from slipstream.commands.asking import ask_for_step
from slipstream.commands.look import JsonOption, ledger_engine, show_table
from slipstream.commands.step_words import asked_for, why_none
from slipstream.commands.ticking import send_tick
from slipstream.errors import UsageError
from slipstream.running import adopt, find_running

if TYPE_CHECKING:
    from trainer.settings import TrainerSettings

# A plan asks neither. Without a base model of its own, this process plans nothing that no worker told of.
_NOT_ASKED = {
    "REDIS_URL": "redis://nobody.invalid",
    "SLIPSTREAM_UPSTREAM_URLS": "http://nobody.invalid",
    "SLIPSTREAM_BASE_MODEL": "(none)",
}
_SETTINGS_OF = {
    "worker": "that its newest worker was started with.",
    "environment": "of this environment: no worker was ever started for it.",
}
_GROUP_COLUMNS = [
    "group",
    "kind",
    "scored",
    "used",
    "tokens",
    "reward",
    "baseline",
    "advantages",
    "staleness",
]


def train(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Train nothing: list what the next step would do, and why.")
    ] = False,
    *,
    now: Annotated[
        bool, typer.Option("--now", help="Ask for a step on what is ready, whatever count, floor, hours and interval say.")
    ] = False,
    skip_grace: Annotated[
        bool, typer.Option("--skip-grace", help="With --now: also groups that only wait for their grace period.")
    ] = False,
    even_if_paused: Annotated[bool, typer.Option("--even-if-paused", help="With --now: although it is paused.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="With --now: until the step ended; exit code 1 if it made no version.")] = False,
    seconds: Annotated[float, typer.Option(min=0.1, help="With --wait: for so long at most.")] = 3600.0,
    policy: Annotated[str | None, typer.Option(help="With --now: which policy.", show_default="the only one")] = None,
    project: Annotated[str, typer.Option(help="With --now: whose.")] = DEFAULT_PROJECT,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Ask the worker to look for something to train, now; with --now, for a step by hand."""
    if dry_run and now:
        raise UsageError("Say either --dry-run or --now.")
    if not now and (skip_grace or even_if_paused or wait or policy):
        raise UsageError("--skip-grace, --even-if-paused, --wait and --policy go with --now.")
    if dry_run:
        show_plan(plan(), as_json)
    elif now:
        arguments = {"skip_grace": skip_grace, "even_if_paused": even_if_paused}
        ask_for_step(
            StepKind.GRPO,
            {name: value for name, value in arguments.items() if value},
            policy=policy,
            project=project,
            wait_seconds=seconds if wait else None,
            as_json=as_json,
        )
    elif as_json:
        raise UsageError("--json goes with --dry-run or --now.")
    else:
        send_tick()
        typer.echo("A tick was sent. `slipstream status` shows what it found.")


def plan() -> dict[str, Any]:
    """Of all policies of all projects, with what each worker told of its settings; ours where none ever did."""
    settings = planning_settings()
    from trainer.plan import read_plan, reading

    with ledger_engine() as engine, reading(engine) as connection:
        return read_plan(connection, settings, is_worker=False)


def planning_settings() -> "TrainerSettings":
    """Of whoever computes here what a worker would do."""
    import os

    running = find_running()
    adopt(running)
    known = {"DATABASE_URL": running.require("DATABASE_URL"), **_NOT_ASKED}
    os.environ.update({name: value for name, value in known.items() if not os.environ.get(name)})
    from trainer.settings import TrainerSettings

    return TrainerSettings.from_environment()


def show_plan(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found))
        return
    for policy in found["policies"]:
        typer.echo(f"policy {policy['project']}/{policy['policy']}: {_when(policy)}")
        if policy["settings_of"]:
            typer.echo(f"planned with the settings {_SETTINGS_OF[policy['settings_of']]}")
        if policy["groups"]:
            show_table(_GROUP_COLUMNS, [_group(group) for group in policy["groups"]])
        totals = policy["totals"]
        typer.echo(
            f"in all: {totals['num_used']} of {totals['num_exchanges']} exchanges, {totals['num_tokens_used']} tokens"
        )
        if totals["left_out"]:
            rows = [[r, str(n["num_exchanges"]), str(n["num_tokens"])] for r, n in totals["left_out"].items()]
            show_table(["left out", "exchanges", "tokens"], rows)
        if policy["not_ready"]:
            show_table(
                ["not ready", "kind", "scored", "waits for", "ready at"],
                [_open(g) for g in policy["not_ready"]],
            )
        typer.echo("")


def _when(policy: dict[str, Any]) -> str:
    live = f"version {policy['live_version']} is live"
    if policy["worker"] is None:
        return f"{live}; no worker was ever started for it, so nothing says what a step would take."
    if policy["active_step"]:
        step = policy["active_step"]
        return f"{live}; step {step['version']} is {step['state']}, this is the one after it."
    if asked := asked_for(policy):
        return f"{live}; {asked}."
    if policy["is_due"]:
        return f"{live}; the next tick begins a step."
    return f"{live}; no step yet: {why_none(policy)}."


def _group(group: dict[str, Any]) -> list[str]:
    rows = group["exchanges"]
    used = [row for row in rows if row["is_used"]]
    kinds = sorted({str(row["baseline_kind"]) for row in used})
    return [
        group["group_id"],
        group["kind"],
        f"{group['num_scored']} of {group['num_members']}",
        f"{len(used)} of {len(rows)}",
        str(sum(row["num_completion_tokens"] for row in used)),
        _range([row["reward"] for row in rows]),
        ", ".join(kinds) or "none",
        _range([row["advantage"] for row in used]),
        _range([row["staleness"] for row in used]),
    ]


def _open(group: dict[str, Any]) -> list[str]:
    return [
        group["group_id"],
        group["kind"],
        f"{group['num_scored']} of {group['num_members']}",
        ", ".join(group["waits_for"]),
        group["ready_at"] or "when that has come",
    ]


def _range(values: list[float | None]) -> str:
    known = sorted(value for value in values if value is not None)
    if not known:
        return ""
    return f"{known[0]:.3g}" if known[0] == known[-1] else f"{known[0]:.3g} to {known[-1]:.3g}"
