"""`slipstream pause` and `slipstream resume`: policies that begin no step for now. Serving and recording go on."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from slipstream.commands.look import JsonOption, ledger_connection, show_table

ProjectOption = Annotated[str | None, typer.Option(help="Of one project.", show_default="all")]
PolicyOption = Annotated[str | None, typer.Option(help="One policy.", show_default="all")]


def pause(
    project: ProjectOption = None,
    policy: PolicyOption = None,
    reason: Annotated[str | None, typer.Option(help="Why, in one line.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Begin no step for now. One that runs goes on to its end; calls are answered and recorded."""
    from ledger.pauses import find_learners, pause

    with ledger_connection() as connection:
        pause(connection, [learner.id for learner in find_learners(connection, project, policy)], reason)
        connection.commit()
    _show(project, policy, as_json=as_json)


def resume(project: ProjectOption = None, policy: PolicyOption = None, as_json: JsonOption = False) -> None:
    """Begin steps again."""
    from ledger.pauses import find_learners, resume

    with ledger_connection() as connection:
        resume(connection, [learner.id for learner in find_learners(connection, project, policy)])
        connection.commit()
    _show(project, policy, as_json=as_json)


def _show(project: str | None, policy: str | None, *, as_json: bool) -> None:
    from ledger.pauses import find_learners

    with ledger_connection() as connection:
        found = find_learners(connection, project, policy)
    if as_json:
        typer.echo(json.dumps([asdict(learner) for learner in found], default=str))
        return
    rows = [
        [
            one.project,
            one.policy,
            f"paused since {one.paused_at}" if one.paused_at else "learns",
            one.paused_reason or "",
        ]
        for one in found
    ]
    show_table(["project", "policy", "state", "why"], rows)
