"""A command that changes something in a running system: a reward."""

import json
import os
from typing import Annotated, Any

import typer

from slipstream.commands.reward_from_sql import reward_from_sql
from slipstream.errors import NotRunningError, SlipstreamError, UsageError
from slipstream.http import call
from slipstream.running import find_running

_SAID = {
    "recorded": "Recorded: {value} for {target}.",
    "unchanged": "Unchanged: {target} has this judgement already.",
    "early": "{target} is not known yet: the reward of {value} waits for that id. Is it spelt right?",
}


def reward(
    target: Annotated[
        str | None, typer.Argument(help="A trajectory id, a reply's id, or your own trajectory id.")
    ] = None,
    value: Annotated[str | None, typer.Argument(help="The reward: a number, true or false.")] = None,
    *,
    metric: Annotated[str | None, typer.Option(help="What is judged.", show_default="reward")] = None,
    comment: Annotated[str | None, typer.Option(help="Why.")] = None,
    choice: Annotated[int | None, typer.Option(help="Which choice of a call with several.")] = None,
    from_sql: Annotated[
        str | None,
        typer.Option("--from-sql", metavar="FILE", help="Post what this query returns; - is standard input."),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            help="Where --from-sql reads, else SLIPSTREAM_REWARDS_DATABASE_URL; without either, the ledger."
        ),
    ] = None,
    source: Annotated[str | None, typer.Option(help="Who judges: `cli`, or with --from-sql `sql`.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and check the rows, post none.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Judge a trajectory, or with --from-sql all that a query returns (docs/sql.md)."""
    of_one = {"metric": metric, "comment": comment, "choice": choice}
    if from_sql is not None:
        if target is not None:
            raise UsageError("Say either what is judged or --from-sql, not both.")
        _refuse(of_one, "is a column of the query's rows where there is --from-sql")
        reward_from_sql(from_sql, database, source or "sql", is_dry=dry_run, as_json=as_json)
        return
    if target is None or value is None:
        raise UsageError("Say what is judged and the reward: slipstream reward ID 0.7. Or --from-sql FILE.")
    _refuse({"database": database, "dry-run": dry_run or None}, "goes with --from-sql")
    answer = _post_one(target, {"reward": _number(value), **of_one, "source": source or "cli"})
    typer.echo(json.dumps(answer) if as_json else _said(answer, value, target))


def _number(value: str) -> float | bool:
    """Raises UsageError. What the metric's range takes is the proxy's to say."""
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        return float(value)
    except ValueError as error:
        raise UsageError(f"The reward must be a number, true or false, and {value!r} is neither.") from error


def _said(answer: dict[str, Any], value: str, target: str) -> str:
    """What was written, and where it does not count, why. That of an early one is said already."""
    said = _SAID[answer["status"]].format(value=value, target=target)
    if answer["counts"] or answer["status"] == "early":
        return said
    return f"{said} It does not count, {answer['reason']}: {answer['note']}"


def _refuse(options: dict[str, Any], why: str) -> None:
    """What would be passed over in silence. Raises UsageError."""
    for name, value in options.items():
        if value is not None:
            raise UsageError(f"--{name} {why}.")


def _post_one(target: str, body: dict[str, Any]) -> dict[str, Any]:
    from urllib.parse import quote

    url = f"{find_running().url}/v1/trajectories/{quote(target, safe='')}/reward"
    key = os.environ.get("OPENAI_API_KEY")
    try:
        status, answer = call(url, {k: v for k, v in body.items() if v is not None}, seconds=15, key=key)
    except OSError as error:
        raise NotRunningError(
            f"No proxy answers at {url}: start one with `slipstream up`, or set SLIPSTREAM_URL."
        ) from error
    if status >= 400 or not isinstance(answer, dict):  # noqa: PLR2004
        message = answer.get("error", {}).get("message") if isinstance(answer, dict) else answer
        raise SlipstreamError(f"The reward was refused ({status}): {message}")
    return answer
