"""`slipstream steps`: what the last training steps did, what looks wrong, and a picture of it."""

import json
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.commands.look import JsonOption, ledger_connection, show_table
from slipstream.errors import UsageError

Row = dict[str, Any]


def steps(
    policy: Annotated[str | None, typer.Option(help="Only this policy: NAME or PROJECT@NAME.")] = None,
    last: Annotated[int, typer.Option(min=1, max=10_000, help="So many steps of each policy.")] = 20,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw published steps into this PNG; needs one policy.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The last training steps with the figures that matter, and what in them looks wrong (docs/training.md)."""
    from ledger.reading import plain
    from ledger.signs import signs
    from ledger.step_metrics import last_steps

    project, name = _split(policy)
    with ledger_connection() as connection:
        rows = last_steps(connection, project, name, last)
    by_policy = {line: list(of) for line, of in groupby(rows, _line)}
    told = {line: signs([row for row in of if row["finished_at"]]) for line, of in by_policy.items()}
    if picture is not None:
        _draw(by_policy, picture)
    if as_json:
        found = [
            {"policy": line, "steps": [plain(row) for row in of], "signs": told[line]}
            for line, of in by_policy.items()
        ]
        typer.echo(json.dumps(found))
        return
    for line, of in by_policy.items():
        typer.echo(f"policy {line}")
        show_table(list(COLUMNS), [[show(row) for show in COLUMNS.values()] for row in of])
        typer.echo("\n".join(f"! {sentence}" for sentence in told[line]) + "\n" * bool(told[line]))
    if not by_policy:
        typer.echo("No training step has begun yet: `slipstream status` says what is missing.")


def _split(policy: str | None) -> tuple[str | None, str | None]:
    """Project and name; NAME alone is the default project's."""
    from ledger.vocabulary import DEFAULT_PROJECT

    if policy is None:
        return None, None
    project, at, name = policy.rpartition("@")
    return (project if at else DEFAULT_PROJECT), name


def _line(row: Row) -> str:
    from ledger.vocabulary import DEFAULT_PROJECT

    return str(row["policy"] if row["project"] == DEFAULT_PROJECT else f"{row['project']}@{row['policy']}")


def _draw(by_policy: dict[str, list[Row]], path: Path) -> None:
    from slipstream.picture import draw

    drawable = {
        line: [row for row in rows if row["state"] == "published"] for line, rows in by_policy.items()
    }
    drawable = {line: rows for line, rows in drawable.items() if rows}
    if len(drawable) != 1:
        some = ", ".join(drawable) or "none"
        raise UsageError(f"A picture shows one policy with published steps; here: {some}. Say --policy.")
    ((line, rows),) = drawable.items()
    first, newest = rows[0]["version"], rows[-1]["version"]
    draw(rows, f"{line}: versions {first} to {newest}", path)


def _number(name: str) -> Callable[[Row], str]:
    return lambda row: "" if row[name] is None else f"{row[name]:.3g}"


def _pair(first: str, second: str, between: str) -> Callable[[Row], str]:
    one, other = _number(first), _number(second)
    return lambda row: f"{one(row)}{between}{other(row)}" if one(row) else ""


def _state(row: Row) -> str:
    return str(row["state"] if row["kind"] == "grpo" else f"{row['kind']} {row['state']}")


def _alike(row: Row) -> str:
    """Groups without variance, of all."""
    share, num = row["frac_groups_without_variance"], row["num_groups"]
    return "" if share is None or num is None else f"{share * num:.0f}/{num}"


COLUMNS: dict[str, Callable[[Row], str]] = {
    "version": lambda row: str(row["version"]),
    "state": _state,
    "ended": lambda row: f"{row['finished_at']:%m-%d %H:%M}" if row["finished_at"] else "",
    "reward": _pair("reward_mean", "reward_spread", " ±"),
    "alike": _alike,
    "advantage ±": _number("advantage_spread"),
    "grad": _number("grad_norm"),
    "ratio, max": _pair("ratio_mean", "ratio_max", ", "),
    "clipped": _number("clipped_fraction"),
    "kl": _number("approximate_kl"),
    "entropy": _number("entropy"),
    "loss": _number("loss"),
    "tokens": lambda row: "" if row["tokens_used"] is None else str(row["tokens_used"]),
    "dropped": lambda row: str(row["tokens_dropped"]),
    "length": _number("completion_tokens_mean"),
    "stale": _number("staleness_mean"),
    "seconds": lambda row: "" if row["seconds_total"] is None else f"{row['seconds_total']:.0f}",
    "MiB": lambda row: "" if row["peak_memory_mib"] is None else str(row["peak_memory_mib"]),
}
