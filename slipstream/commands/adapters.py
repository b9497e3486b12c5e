"""`slipstream adapters pull`: beside each vLLM whose machine shares no file system with the trainer's."""

import signal
from threading import Event
from typing import Annotated

import typer

from ledger.logs import configure_logs
from slipstream.errors import SlipstreamError, UsageError

adapters = typer.Typer(help="Adapters in object storage.", no_args_is_help=True)


@adapters.command()
def pull(
    once: Annotated[bool, typer.Option("--once", help="Bring what is missing, then exit.")] = False,
) -> None:
    """Bring published adapters from SLIPSTREAM_ADAPTERS_URL to SLIPSTREAM_ADAPTERS, until SIGTERM."""
    from trainer.pull_settings import PullSettings

    settings = PullSettings.from_environment()
    if settings.url is None:
        raise UsageError("There is nowhere to pull from: set SLIPSTREAM_ADAPTERS_URL as for the worker.")
    from trainer.errors import TrainerError
    from trainer.pull import pull as pull_missing
    from trainer.pull import pull_for_ever
    from trainer.store import Store

    try:
        store = Store(settings.url)
    except TrainerError as error:
        raise SlipstreamError(str(error)) from error
    if once:
        for name in pull_missing(store, settings.adapters):
            typer.echo(name)
        return
    configure_logs("pull", "INFO")
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    pull_for_ever(store, settings, stop.wait)


@adapters.callback()
def _group() -> None:
    """A group even with one command."""
