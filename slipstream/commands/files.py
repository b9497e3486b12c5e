"""`slipstream export` and `slipstream import`: the ledger as files, and files as rows of the ledger."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from ledger.exports.export import FORMATS, STANDARD_OUTPUT
from ledger.exports.export import export as write
from ledger.exports.filters import Filters, check_filters, groups_named
from ledger.imports.batches import joined, requests_of
from ledger.imports.file import Importer
from ledger.imports.lines import json_lines, parquet_lines
from ledger.imports.report import Report
from slipstream.commands.erase import operator
from slipstream.commands.look import JsonOption, ledger_engine
from slipstream.errors import SlipstreamError, UsageError

FormatOption = Annotated[
    str | None, typer.Option("--format", help="parquet or jsonl; else by the file's ending.")
]
_MOST_TOLD = 20  # bad lines; all are counted, and stand in --json
_OWN = "the rows' own; of chat logs: default"
_UNITS = {"d": 86_400, "h": 3_600, "m": 60}


def export(
    path: Annotated[str, typer.Argument(help="The file, .parquet or .jsonl; - is the standard output, as JSON lines.")],
    *,
    format_: FormatOption = None,
    project: Annotated[str | None, typer.Option(help="Only this project's.")] = None,
    policy: Annotated[str | None, typer.Option(help="Only this policy's.")] = None,
    version: Annotated[int | None, typer.Option(help="Only what this version produced.")] = None,
    since: Annotated[str | None, typer.Option(help="Calls from then on: 2026-11-30, an ISO time, or 7d, 12h, 30m ago.")] = None,
    until: Annotated[str | None, typer.Option(help="Calls before then.")] = None,
    is_trainable: Annotated[bool, typer.Option("--trainable", help="Only what the trainer may use.")] = False,
    group: Annotated[str | None, typer.Option(help="Only this group's: its id or key.")] = None,
    is_forced: Annotated[bool, typer.Option("--force", help="Replace a file that has this name.")] = False,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Write exchanges, whole, with their rewards and what they taught. The file gets its name once it is whole."""
    if path != STANDARD_OUTPUT and Path(path).exists() and not is_forced:
        raise UsageError(f"{path} exists: say --force to replace it, or another name.")
    with ledger_engine() as engine:
        group_ids = None
        if group is not None:
            with engine.connect() as connection:
                group_ids = groups_named(connection, group, project)
        filters = Filters(
            project, policy, version, _moment(since), _moment(until), is_trainable or None, group_ids
        )
        with engine.connect() as connection:
            check_filters(connection, filters)
        with shown(is_hidden=as_json) as progress:
            task = progress.add_task("exchanges", total=None)

            def advance(number: int, total: int) -> None:
                progress.update(task, completed=number, total=total)

            with told_errors(path):
                done = write(engine, path, format_, filters, requested_by=operator(), progress=advance)
    is_quiet = path == STANDARD_OUTPUT
    typer.echo(json.dumps(done) if as_json else f"{done['num_exchanges']} exchanges in {path}", err=is_quiet)


def import_(
    path: Annotated[str, typer.Argument(help="A file of `slipstream export`, or a chat log as JSON lines; - is the standard input.")],
    *,
    format_: FormatOption = None,
    project: Annotated[str | None, typer.Option(help="Into this project.", show_default=_OWN)] = None,
    policy: Annotated[str | None, typer.Option(help="Into this policy.", show_default=_OWN)] = None,
    requests: Annotated[Path | None, typer.Option(help="A batch's input file, whose questions the answers get, by custom_id.")] = None,
    is_dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would come of it, and change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Take exported exchanges, or OpenAI-style chat logs as teacher data, into the ledger. What exists stays."""
    if format_ not in (None, *FORMATS):
        raise UsageError(f"{format_!r} is no known format: say --format {' or '.join(FORMATS)}.")
    with (
        ledger_engine() as engine,
        told_errors(path),
        opened(path) as file,
        shown(is_hidden=as_json) as progress,
    ):
        task = progress.add_task(
            "bytes", total=None if file is sys.stdin.buffer else Path(path).stat().st_size
        )
        is_parquet = format_ == "parquet" or (format_ is None and path.endswith(".parquet"))
        lines = parquet_lines(Path(path)) if is_parquet else json_lines(file)
        if requests is not None:
            with told_errors(str(requests)), requests.open("rb") as asked:
                lines = joined(lines, requests_of(json_lines(asked)))

        def advance() -> None:
            if file is not sys.stdin.buffer and not is_parquet:
                progress.update(task, completed=file.tell())

        report = Importer(engine, project, policy, is_dry_run).run(lines, advance)
    typer.echo(
        json.dumps({**report.as_json(), "is_dry_run": is_dry_run}) if as_json else _told(report, is_dry_run)
    )
    if report.num_bad:
        raise typer.Exit(1)


def _told(report: Report, is_dry_run: bool) -> str:
    would = "Would import" if is_dry_run else "Imported"
    lines = [
        f"{would} {report.num_new} exchanges and {report.num_rewards} judgements from {report.num_lines} lines.",
        f"{report.num_existing} exchanges were there already.",
        *_under_another_policy(report.num_other_policy),
        *_without_question(report.num_unasked),
        *(f"line {bad['line']}: {bad['problem']}" for bad in report.bad_lines[:_MOST_TOLD]),
    ]
    if report.num_over:
        lines.append(
            f"{report.num_over} of them are older than their policy keeps rows, and go with the next run of "
            "retention, within the hour: `slipstream retention show`, `slipstream retention set`."
        )
    if report.num_bad > _MOST_TOLD:
        lines.append(f"and {report.num_bad - _MOST_TOLD} more bad lines: --json lists them all.")
    return "\n".join(lines)


def _under_another_policy(number: int) -> list[str]:
    told = f"{number} exchanges are here under another policy and stay there: --project copies into another project."
    return [told] if number else []


def _without_question(number: int) -> list[str]:
    told = (
        f"{number} answers came without their question: a batch's output holds none. Its input file does, by the same "
        "custom_id, which is kept in metadata: say --requests INPUT.jsonl at the first import."
    )
    return [told] if number else []


@contextmanager
def opened(path: str) -> Iterator[Any]:
    if path == "-":
        yield sys.stdin.buffer
        return
    with Path(path).open("rb") as file:
        yield file


@contextmanager
def told_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SlipstreamError(f"{path}: {error.strerror or error}") from error


def shown(*, is_hidden: bool) -> Progress:
    """A bar on the terminal, on stderr; nothing where a program reads."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    return Progress(*columns, console=console, transient=True, disable=is_hidden or not console.is_terminal)


def _moment(text: str | None) -> datetime | None:
    """A date is its midnight in UTC. Raises UsageError."""
    if text is None:
        return None
    try:
        if text[:-1].isdecimal() and text[-1] in _UNITS:
            return datetime.now(UTC) - timedelta(seconds=int(text[:-1]) * _UNITS[text[-1]])
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{text!r} is no time: say 2026-11-30, 2026-11-30T12:00:00Z, 7d, 12h or 30m."
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
