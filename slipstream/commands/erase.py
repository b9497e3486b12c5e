"""`slipstream erase`: a user's or a trajectory's words leave the ledger; what that cannot undo is listed."""

import getpass
import json
import socket
from typing import Annotated, Any

import typer

from ledger.vocabulary import DEFAULT_PROJECT, ErasureSubject
from slipstream.commands.look import JsonOption, ledger_engine
from slipstream.errors import UsageError
from slipstream.running import find_running


def erase(
    user: Annotated[str | None, typer.Option(help="`user`, `safety_identifier` or `metadata.user_id` of calls.")] = None,
    trajectory: Annotated[str | None, typer.Option(help="Its id, a reply's id, or the caller's own id.")] = None,
    project: Annotated[str, typer.Option(help="Whose data it is.")] = DEFAULT_PROJECT,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Erase the payloads of a user or a trajectory. It cannot be undone; asked again, it goes on or changes nothing."""
    from ledger.erasure.erase import erase_all
    from ledger.erasure.subject import Subject

    if bool(user) == bool(trajectory):
        raise UsageError("Say what to erase: --user NAME or --trajectory ID.")
    subject = (
        Subject(ErasureSubject.TRAJECTORY, trajectory or "")
        if not user
        else Subject(ErasureSubject.USER, user)
    )
    spool = find_running().spool
    with ledger_engine() as engine:
        report = erase_all(engine, project, subject, operator(), spool if spool.is_dir() else None)
    typer.echo(json.dumps(report) if as_json else told(report))


def operator() -> str:
    """Who runs a command, for the record."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # no such user in this container
        name = "?"
    return f"{name}@{socket.gethostname()}"


def told(report: dict[str, Any]) -> str:
    lines = [
        "Erased: {num_exchanges} exchanges, {num_trajectories} trajectories, {num_rewards} judgements; {num_shared} "
        "turns of others lost what they repeated.".format(**report)
    ]
    for made in report["versions"]:
        line = "{policy}@{version} learned from {num_exchanges} of them (step {step_state})".format(**made)
        lines.append(line + (", and is live" if made["is_live"] else ""))
    lines += [
        f"A copy may lie in {file['path']} ({file['finished_at'] or 'unfinished'})."
        for file in report["exports"]
    ]
    spool = report["spool"]
    if spool is None:
        lines.append(
            "No spool lies here (SLIPSTREAM_SPOOL): proxies empty their own within seconds. Repeat this where the "
            "rejected/ and corrupt/ of a spool lie."
        )
    elif spool["num_waiting"]:
        lines.append(f"{spool['num_waiting']} calls still lie in a spool: repeat this in a minute.")
    return "\n".join(lines)
