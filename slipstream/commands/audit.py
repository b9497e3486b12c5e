"""`slipstream audit`: is there a row for every call that was accepted? Exit code 1 if not, or if a file waits for a hand."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream.commands.look import JsonOption, ledger_engine, show_table
from slipstream.errors import NotRunningError, UsageError
from slipstream.running import find_running

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from ledger.audit.comparison import Hour
    from ledger.audit.evidence import Audit

_COUNTS = (
    "accepted", "spooled", "committed", "interrupted", "running", "waiting", "rejected", "elsewhere",
    "unwritten", "uncaptured", "lost",
)  # fmt: skip
_ALWAYS = ("accepted", "committed", "lost")  # others are left out where they are 0 throughout


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
    from ledger.audit.evidence import is_known

    if spool and not spool.is_dir():
        raise UsageError(f"{spool} is no directory: say the proxies' SLIPSTREAM_SPOOL.")
    running = find_running()
    if not running.variables.get("DATABASE_URL"):
        raise NotRunningError(
            f"DATABASE_URL is not known: no stack runs in {running.home.root}. To audit a stopped one, start it "
            "(`slipstream up`, which also records what waits in its spool) and repeat this; or set DATABASE_URL."
        )
    root = spool or running.spool
    refused: list[dict[str, str]] = []
    with ledger_engine() as engine:
        replayed = _replay(engine, root, refused) if replay_rejected else None
        found = audit_ledger(engine, root, hours)
        is_missing = not root.is_dir()
        is_missed = is_missing and is_known(engine, root)
    told = summary(found, hours) | ({} if replayed is None else {"replayed": replayed, "refused": refused})
    told["missing_spool"] = str(root.absolute()) if is_missing else None
    typer.echo(json.dumps(told)) if as_json else show(told)
    if is_missed or not found.is_whole:
        raise typer.Exit(1)


def _replay(engine: "Engine", root: Path, refused: list[dict[str, str]]) -> dict[str, int]:
    from ledger.audit.rejected import rejected_paths, replay
    from ledger.recording_session import RecordingSession

    session = RecordingSession(engine)
    try:
        results = replay(
            rejected_paths(root), root, session, lambda path, why: refused.append({"path": str(path), **why})
        )
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


def shortened(process: str) -> str:
    """Example: 4711-0a1b2c3d4e5f -> 4711-0a1b. --json and the lines below the table have all of it."""
    number, dash, rest = process.partition("-")
    return f"{number}{dash}{rest[:4]}"


def show(told: dict[str, Any]) -> None:
    shown = [name for name in _COUNTS if name in _ALWAYS or told[name] or any(h[name] for h in told["hours"])]
    rows = [
        [hour["hour"], shortened(hour["process"]), *(str(hour[name]) for name in shown)]
        for hour in told["hours"]
    ]
    rows.append(["all", "", *(str(told[name]) for name in shown)])
    show_table(["hour", "process", *shown], rows)
    if told["missing_spool"]:
        typer.echo(
            f"The spool {told['missing_spool']} does not exist: no file was looked at. Say --spool or SLIPSTREAM_SPOOL."
        )
    for why in told.get("refused", ()):
        typer.echo(f"refused again: {' '.join(why.values())}")
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
