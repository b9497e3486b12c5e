"""`slipstream up` and `slipstream down`."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from slipstream.configuration import check
from slipstream.errors import NotRunningError, UsageError
from slipstream.local.home import Home, marked_process
from slipstream.local.recovery import recover, wait_free
from slipstream.local.stack import run_stack
from slipstream.settings import StackSettings

HomeOption = Annotated[Path | None, typer.Option(help="Where the state is kept.", show_default=".slipstream")]
STOP_SECONDS = 90


def choose_home(home: HomeOption = None) -> None:
    """An OpenAI-compatible proxy that learns from the traffic that passes through it."""
    if home is not None:
        os.environ["SLIPSTREAM_HOME"] = str(home)


def up(
    model: Annotated[str | None, typer.Option(help="A model directory, or a name on a hub.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the proxy.", show_default="4000")] = None,
    home: HomeOption = None,
) -> None:
    """Start the embedded stack and keep it running until Ctrl-C."""
    check(StackSettings)
    given: dict[str, Any] = {"base_model": model, "port": port, "home": home}
    settings = StackSettings(**{name: value for name, value in given.items() if value is not None})
    raise typer.Exit(run_stack(settings, Console()))


def down(home: HomeOption = None) -> None:
    """Stop the stack that runs in this home."""
    place = Home.at(home or StackSettings().home)
    supervisor = marked_process(place.running().get("supervisor"))
    if supervisor is None:
        if place.root.is_dir():
            with place.locked():
                recover(place)
        raise NotRunningError(f"No stack runs in {place.root}.")
    supervisor.terminate()
    if not wait_free(place, STOP_SECONDS):
        raise UsageError(
            f"Process {supervisor.pid} did not stop within {STOP_SECONDS} s: kill -9 {supervisor.pid} ends it."
        )
    typer.echo(f"The stack in {place.root} has stopped; its state stays.")
