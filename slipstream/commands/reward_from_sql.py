"""`slipstream reward --from-sql`: a query's rows, posted as rewards. Safe to run again, such as from cron."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from slipstream.errors import UsageError
from slipstream.reward_posting import Outcome, post_all, poster
from slipstream.reward_query import Item, items, running_query
from slipstream.running import find_running
from slipstream.settings import StackSettings

_SHOWN = 5  # items of a dry run


def reward_from_sql(file: str, database: str | None, source: str, *, is_dry: bool, as_json: bool) -> None:
    """Exits with 1 if a row was refused; the others are posted all the same."""
    running = find_running()
    query = _read(file)
    post = _shown if is_dry else poster(running.url, os.environ.get("OPENAI_API_KEY"))
    with (
        running_query(database or _own_database() or running.require("DATABASE_URL"), query) as rows,
        _progress(as_json) as tell,
    ):
        outcome = post_all(items(rows, source), post, tell)
    _report(outcome, as_json=as_json, is_dry=is_dry)
    if outcome.counts["refused"]:
        raise typer.Exit(1)


def _own_database() -> str | None:
    url = StackSettings().rewards_database_url
    return url.get_secret_value() if url else None


def _read(file: str) -> str:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    if not text.strip():
        raise UsageError(f"{file} is empty: it should hold one SELECT that returns target and reward.")
    return text


def _shown(batch: list[Item]) -> list[dict[str, Any]]:
    """What a dry run does instead of posting."""
    for item in batch:
        if item.number <= _SHOWN:
            typer.echo(json.dumps(item.body), err=True)
    return [{"status": "checked"} for _ in batch]


@contextmanager
def _progress(is_silent: bool) -> Iterator[Any]:
    """On a terminal a line that moves; elsewhere nothing."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=is_silent or not console.is_terminal
    ) as progress:
        task = progress.add_task("reading", total=None)

        def tell(outcome: Outcome) -> None:
            progress.update(task, description=_told(outcome))

        yield tell


def _told(outcome: Outcome) -> str:
    parts = [f"{num:,} {name.replace('_', ' ')}" for name, num in sorted(outcome.counts.items()) if num]
    return f"{outcome.num_rows:,} rows: {', '.join(parts) or 'none'}"


def _report(outcome: Outcome, *, as_json: bool, is_dry: bool) -> None:
    if as_json:
        typer.echo(outcome.as_json())
        return
    for row in outcome.refused:
        typer.echo(f"row {row.number} ({row.target or 'no target'}): {row.message}", err=True)
    if (num_more := outcome.counts["refused"] - len(outcome.refused)) > 0:
        typer.echo(f"and {num_more:,} more rows were refused", err=True)
    typer.echo(_told(outcome) + (" (nothing was posted)" if is_dry else ""))
