"""`slipstream proxy`, `worker`, `beat`, `migrate`: one process each, configured by environment alone."""

from slipstream.errors import SlipstreamError, UsageError
from slipstream.settings import StackSettings


def proxy() -> None:
    """Serve OpenAI's API and record what passes (one process)."""
    from proxy.server import serve
    from proxy.settings import ProxySettings

    serve(ProxySettings())


def worker() -> None:
    """Train on scored groups and publish versions (one process)."""
    from trainer.errors import TrainerError
    from trainer.settings import TrainerSettings
    from trainer.worker import run_worker

    try:
        run_worker(TrainerSettings())
    except TrainerError as error:
        raise SlipstreamError(str(error)) from error


def beat() -> None:
    """Send the periodic ticks (one process)."""
    from trainer.settings import TrainerSettings
    from trainer.worker import run_beat

    run_beat(TrainerSettings())


def migrate() -> None:
    """Bring the database's schema to this version, then exit."""
    from migrations import migrate as migrate_database

    url = StackSettings().database_url
    if url is None:
        raise UsageError("DATABASE_URL is not set: it says which database to migrate.")
    migrate_database(url.get_secret_value())
