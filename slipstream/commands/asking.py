"""Asking for a step, and waiting for what becomes of it. The request is a row: it outlives this process, the broker and the worker."""

import json
from collections.abc import Mapping
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer
from sqlalchemy import Connection

from ledger.vocabulary import DEFAULT_PROJECT, RequestState, StepKind, StepState
from slipstream.commands.look import ledger_connection
from slipstream.commands.ticking import send_tick
from slipstream.errors import NotRunningError, NoVersionError, SlipstreamError

if TYPE_CHECKING:
    from ledger.pauses import Learner

LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 30.0
_OVER = (RequestState.DONE, RequestState.REFUSED)


def ask_for_step(
    kind: StepKind,
    arguments: Mapping[str, Any],
    *,
    policy: str | None,
    project: str = DEFAULT_PROJECT,
    wait_seconds: float | None,
    as_json: bool,
) -> None:
    """Asks, and with `wait_seconds` waits for the step to end. Raises NoVersionError where it then made none."""
    from ledger.step_arguments import check_arguments
    from ledger.step_requests import ask_step, find_request

    check_arguments(kind, arguments)
    with ledger_connection() as connection:
        learner = only_learner(connection, project, policy)
        request_id = ask_step(connection, learner.id, kind, dict(arguments))
        connection.commit()
        nudge()
        found = find_request(connection, project, request_id) or {}
        if wait_seconds is not None:
            found = _ended(connection, project, request_id, wait_seconds)
    is_missed = wait_seconds is not None and found["step_state"] != StepState.PUBLISHED
    if as_json:
        typer.echo(json.dumps(found, default=str))
    elif not is_missed:
        typer.echo(_said(found))
    if is_missed:
        raise NoVersionError(_said(found))


def only_learner(connection: Connection, project: str, policy: str | None) -> "Learner":
    """The one that is meant. Raises SlipstreamError where the project has several and none was named, LedgerError where
    there is none.
    """
    from ledger.pauses import find_learners

    learners = find_learners(connection, project, policy)
    if len(learners) > 1:
        names = ", ".join(learner.policy for learner in learners)
        raise SlipstreamError(f"Say which policy of project {project}: --policy with one of {names}.")
    return learners[0]


def nudge() -> None:
    """A tick, now; where the broker is away a worker looks by itself."""
    try:
        send_tick()
    except NotRunningError as error:
        typer.echo(f"{error} A worker looks by itself when it has heard nothing for a while.", err=True)


def _ended(connection: Connection, project: str, request_id: UUID, seconds: float) -> dict[str, Any]:
    """Raises SlipstreamError when the time is over; the request stays."""
    from ledger.step_requests import find_request

    began_at, is_told = monotonic(), False
    while monotonic() - began_at < seconds:
        found = find_request(connection, project, request_id) or {}
        connection.rollback()  # no transaction is open while it sleeps
        if found.get("state") in _OVER:
            return found
        if (
            not is_told
            and found.get("state") == RequestState.WAITING
            and monotonic() - began_at > PATIENCE_SECONDS
        ):
            is_told = True
            typer.echo(
                "No worker has begun it yet: does one run, is the policy paused? (`slipstream status`)",
                err=True,
            )
        sleep(LOOK_SECONDS)
    raise SlipstreamError(
        f"It has not ended after {seconds:g} seconds, and goes on by itself: GET /v1/train/{request_id} tells what became of it."
    )


def _said(found: Mapping[str, Any]) -> str:
    line = f"{found['project']}/{found['policy']}"
    if found["state"] == RequestState.REFUSED:
        return f"Refused for {line}: {found['reason']}"
    if found["state"] == RequestState.DONE:
        why = f": {found['reason']}" if found["reason"] else ""
        return f"Step {found['version']} of {line} is {found['step_state']}{why}"
    return f"A {found['kind']} step was asked for: {line}, request {found['id']}."
