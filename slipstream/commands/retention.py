"""`slipstream retention`: how long rows are kept, what a run would remove, and a run."""

import json
import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from sqlalchemy import Connection

from ledger.vocabulary import DEFAULT_PROJECT
from slipstream.commands.look import JsonOption, ledger_connection, show_table

retention = typer.Typer(no_args_is_help=True, help="How long rows are kept: see, say, and carry out.")
FOR_EVER = "forever"
AS_PROJECT = "project"  # or inherit: what the project says


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
    days: Annotated[str, typer.Argument(help=f"Days after a month's end, `{FOR_EVER}`, or, for a policy, `{AS_PROJECT}`.")],
    project: Annotated[str, typer.Option(help="Whose rows.")] = DEFAULT_PROJECT,
    policy: Annotated[str | None, typer.Option(help="One policy of the project.", show_default="all that say nothing else")] = None,
) -> None:  # fmt: skip
    """Say how long rows are kept. Nothing is removed until the next run."""
    from ledger.retention import set_retention

    with ledger_connection() as connection:
        set_retention(connection, project, policy, _number_of(days, is_policy=policy is not None))
        connection.commit()
        typer.echo(_meaning(connection, project, policy))


def _number_of(days: str, *, is_policy: bool) -> int | None:
    """What stands in the column. Raises UsageError."""
    from ledger.retention import FOR_EVER_DAYS, MOST_DAYS
    from slipstream.errors import UsageError

    if days in (AS_PROJECT, "inherit") and is_policy:
        return None
    if days == FOR_EVER:
        return FOR_EVER_DAYS if is_policy else None
    if not (re.fullmatch("[0-9]{1,9}", days) and int(days) <= MOST_DAYS):
        words = f"{FOR_EVER} or {AS_PROJECT}" if is_policy else FOR_EVER
        raise UsageError(f"{days!r} is no number of days: say 1 to {MOST_DAYS}, or {words}.")
    return int(days)


def _meaning(connection: Connection, project: str, policy: str | None) -> str:
    """Which months are over, and when this one will be."""
    from ledger.partitions import month_start
    from ledger.retention import months, read_retentions, waiting_months

    now = datetime.now(UTC)
    whose = f"policy {policy} of project {project}" if policy else f"project {project}"
    found = [one for one in read_retentions(connection) if one.project == project]
    found = [one for one in found if policy in (None, one.policy) and one.days is not None]
    if not found:
        return f"{whose}: kept for ever."
    held = sorted({*months(connection), *waiting_months(connection, now)})
    over = [month for month in held if any(one.is_over(month, now) for one in found)]
    days = min(one.days or 0 for one in found)
    ends_at = month_start(now, 1) + timedelta(days=days)
    gone = f"Months up to {over[-1]:%Y-%m} are over and go within the hour where a worker runs" if over else (
        "No month is over yet"
    )  # fmt: skip
    return (
        f"{whose}: months of rows are kept for {days} days after their end (UTC); this month's go on {ends_at:%Y-%m-%d}.\n"
        f"{gone}. `slipstream retention apply --dry-run` says what would go."
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
            removed, postponed = plan_retention(connection)
        else:
            ensure_partitions(connection)  # what waits in DEFAULT gets its month
            removed, postponed = apply_retention(connection, seconds=seconds)
    for left in postponed:
        typer.echo(f"{left.month:%Y-%m} is left to the next run: {left.reason}.", err=True)
    removed = [one for one in removed if one.num_rows]  # an empty month's partitions go without a word
    if as_json:
        typer.echo(json.dumps([asdict(one) | {"month": f"{one.month:%Y-%m}"} for one in removed]))
        return
    if not removed:
        typer.echo("Nothing would be removed." if dry_run else "Nothing was removed.")
        return
    how = {True: "whole month", False: "rows"}
    table = [[f"{one.month:%Y-%m}", one.table, f"{one.num_rows:,}", how[one.is_dropped]] for one in removed]
    show_table(["month", "table", "would go" if dry_run else "went", "as"], table)
