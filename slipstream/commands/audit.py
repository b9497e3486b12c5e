"""`slipstream audit`: is there a row for every call that was accepted? Exit code 1 if not, or if a file waits for a hand."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream.commands.look import JsonOption, ledger_engine, show_table
from slipstream.errors import UsageError
from slipstream.running import find_running

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from ledger.audit.comparison import Hour
    from ledger.audit.evidence import Audit

_COUNTS = (
    "accepted", "spooled", "committed", "interrupted", "running", "waiting", "rejected", "elsewhere",
    "unwritten", "uncaptured", "lost",
)  # fmt: skip


def audit(
    as_json: JsonOption = False,
    hours: Annotated[int, typer.Option(min=1, help="Count rows, and list hours, of so many hours.")] = 24,
    spool: Annotated[Path | None, typer.Option(help="Instead of SLIPSTREAM_SPOOL.")] = None,
    replay_rejected: Annotated[
        bool, typer.Option("--replay-rejected", help="First try again what Postgres refused.")
    ] = False,
) -> None:
    """Compare accepted, spooled, committed and lost calls. Ends with 1 on any loss or gap."""
    from ledger.audit.evidence import audit as audit_ledger

    if spool and not spool.is_dir():
        raise UsageError(f"{spool} is no directory: say the proxies' SLIPSTREAM_SPOOL.")
    root = spool or find_running().spool
    with ledger_engine() as engine:
        replayed = _replay(engine, root) if replay_rejected else None
        found = audit_ledger(engine, root, hours)
    told = summary(found, hours) | ({} if replayed is None else {"replayed": replayed})
    typer.echo(json.dumps(told)) if as_json else show(told)
    if not found.is_whole:
        raise typer.Exit(1)


def _replay(engine: "Engine", root: Path) -> dict[str, int]:
    from ledger.audit.rejected import rejected_paths, replay
    from ledger.recording_session import RecordingSession

    session = RecordingSession(engine)
    try:
        results = replay(rejected_paths(root), root, session)
    finally:
        session.rest()
    return {"committed": results["committed"], "refused": results["refused"]}


def summary(found: "Audit", num_hours: int) -> dict[str, Any]:
    """What --json prints."""
    totals: Counter[str] = Counter()
    for hour in found.hours:
        totals.update(_counts(hour))
    totals["rejected"] = found.num_rejected
    listed = found.hours[-1].hour - num_hours if found.hours else 0
    return {
        "is_whole": found.is_whole,
        **{name: totals[name] for name in _COUNTS},
        "gone": found.num_gone,
        "damaged": found.num_damaged,
        "corrupt_files": [str(path) for path in found.found.corrupt],
        "rejected_files": [str(path) for path in found.found.rejected],
        "gaps": [gap for hour in found.hours for gap in _gaps(hour)],
        "rows": [
            {"hour": _time(r.hour), "committed": r.num_committed, "rows": r.num_rows, "gone": r.num_gone}
            for r in found.rows
        ],
        "hours": [_listed(hour) for hour in found.hours if hour.hour > listed or hour.lost],
    }


def _counts(hour: "Hour") -> dict[str, int]:
    return {
        "accepted": hour.num_accepted,
        "spooled": hour.num_spooled,
        "committed": len(hour.committed),
        "interrupted": hour.num_interrupted,
        "running": hour.num_running,
        "waiting": hour.num_waiting,
        "rejected": hour.num_rejected,
        "elsewhere": hour.num_elsewhere,
        "unwritten": hour.uncaptured.get("unwritten", 0),
        "uncaptured": sum(n for reason, n in hour.uncaptured.items() if reason != "unwritten"),
        "lost": len(hour.lost),
    }


def _listed(hour: "Hour") -> dict[str, Any]:
    reasons = {"uncaptured_by_reason": dict(hour.uncaptured)}
    return {"process": hour.process, "hour": _time(hour.hour), **_counts(hour), **reasons}


def _gaps(hour: "Hour") -> list[dict[str, Any]]:
    named = {"process": hour.process, "hour": _time(hour.hour)}
    return [{**named, "first": first, "last": end - 1} for first, end in hour.lost.ranges()]


def _time(hour: int) -> str:
    from ledger.audit.call_numbers import moment_of

    return f"{moment_of(hour):%Y-%m-%dT%H:00Z}"


def show(told: dict[str, Any]) -> None:
    rows = [[hour["hour"], hour["process"], *(str(hour[name]) for name in _COUNTS)] for hour in told["hours"]]
    rows.append(["all", "", *(str(told[name]) for name in _COUNTS)])
    show_table(["hour", "process", *_COUNTS], rows)
    if replayed := told.get("replayed"):
        typer.echo(f"tried again: {replayed['committed']} committed, {replayed['refused']} refused")
    for gap in told["gaps"]:
        typer.echo(f"lost: {gap['process']}, {gap['hour']}, calls {gap['first']} to {gap['last']}")
    for row in told["rows"]:
        if row["gone"]:
            typer.echo(
                f"gone: {row['hour']}: {row['committed']} calls were committed, {row['rows']} have rows"
            )
    for path in told["rejected_files"]:
        typer.echo(f"rejected: {path}")
    for path in told["corrupt_files"]:
        typer.echo(f"damaged: {path}")
    if told["is_whole"]:
        typer.echo("No accepted call is lost.")
    else:
        typer.echo("docs/operating.md#audit says what to do.")
