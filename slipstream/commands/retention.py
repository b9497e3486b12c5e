"""`slipstream retention`: how long rows are kept, what a run would remove, and a run."""

import json
import re
from dataclasses import asdict
from typing import Annotated

import typer

from ledger.vocabulary import DEFAULT_PROJECT
from slipstream.commands.look import JsonOption, ledger_connection, show_table

retention = typer.Typer(no_args_is_help=True, help="How long rows are kept: see, say, and carry out.")
FOR_EVER = "forever"
_MOST_DAYS = 36_500  # a month's end and 100 years is still a date


@retention.command()
def show(as_json: JsonOption = False) -> None:
    """Every policy with the days after which a month of its rows is removed."""
    from ledger.retention import read_retentions

    with ledger_connection() as connection:
        found = [
            {"project": one.project, "policy": one.policy, "days": one.days}
            for one in read_retentions(connection)
        ]
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = [[str(one["project"]), str(one["policy"]), str(one["days"] or FOR_EVER)] for one in found]
    show_table(["project", "policy", "days"], table)


@retention.command("set")
def set_(
    days: Annotated[str, typer.Argument(help=f"Days after a month's end, or `{FOR_EVER}` (for a policy: as its project).")],
    project: Annotated[str, typer.Option(help="Whose rows.")] = DEFAULT_PROJECT,
    policy: Annotated[str | None, typer.Option(help="One policy of the project.", show_default="all that say nothing else")] = None,
) -> None:  # fmt: skip
    """Say how long rows are kept. Nothing is removed until the next run."""
    from ledger.retention import set_retention
    from slipstream.errors import UsageError

    if days != FOR_EVER and not (re.fullmatch("[0-9]+", days) and int(days) <= _MOST_DAYS):
        raise UsageError(f"{days!r} is no number of days: say 1 to {_MOST_DAYS}, or {FOR_EVER}.")
    number = None if days == FOR_EVER else int(days)
    with ledger_connection() as connection:
        set_retention(connection, project, policy, number)
        connection.commit()
    whose = f"policy {policy} of project {project}" if policy else f"project {project}"
    if number is None and policy:
        typer.echo(f"{whose}: as its project says.")
    else:
        typer.echo(
            f"{whose}: months of rows are kept {f'for {days} days after their end' if number else 'for ever'}."
        )


@retention.command()
def apply(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    seconds: Annotated[float, typer.Option(help="How long it may take; the next run goes on.")] = 3600.0,
    as_json: JsonOption = False,
) -> None:
    """Remove what is over, as the worker does each hour."""
    from ledger.partitions import ensure_partitions
    from ledger.upkeep import Postponed, apply_retention, plan_retention

    with ledger_connection() as connection:
        postponed: list[Postponed] = []
        if dry_run:
            removed = plan_retention(connection)
        else:
            ensure_partitions(connection)  # what waits in DEFAULT gets its month
            removed, postponed = apply_retention(connection, seconds=seconds)
    for left in postponed:
        typer.echo(f"{left.month:%Y-%m} is left to the next run: {left.reason}.", err=True)
    if as_json:
        typer.echo(json.dumps([asdict(one) | {"month": f"{one.month:%Y-%m}"} for one in removed]))
        return
    how = {True: "whole month", False: "rows"}
    table = [[f"{one.month:%Y-%m}", one.table, f"{one.num_rows:,}", how[one.is_dropped]] for one in removed]
    show_table(["month", "table", "would go" if dry_run else "went", "as"], table)
