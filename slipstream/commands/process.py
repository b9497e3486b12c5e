"""`slipstream proxy`, `worker`, `beat`, `migrate`: one process each, configured by environment alone.

Settings are read before the rest is imported: a wrong one is told at once.
"""

from slipstream.errors import SlipstreamError, UsageError
from slipstream.settings import StackSettings


def proxy() -> None:
    """Serve OpenAI's API and record what passes (one process)."""
    from proxy.settings import ProxySettings

    settings = ProxySettings.from_environment()
    from proxy.server import serve

    serve(settings)


def worker() -> None:
    """Train on scored groups and publish versions (one process)."""
    from trainer.errors import TrainerError
    from trainer.settings import TrainerSettings

    settings = TrainerSettings.from_environment()
    from trainer.worker import run_worker

    try:
        run_worker(settings)
    except TrainerError as error:
        raise SlipstreamError(str(error)) from error


def beat() -> None:
    """Send the periodic ticks (one process)."""
    from trainer.settings import TrainerSettings

    settings = TrainerSettings.from_environment()
    from trainer.worker import run_beat

    run_beat(settings)


def migrate() -> None:
    """Bring the database's schema to this version, then exit."""
    from migrations import migrate as migrate_database

    url = StackSettings().database_url
    if url is None:
        raise UsageError("DATABASE_URL is not set: it says which database to migrate.")
    migrate_database(url.get_secret_value())
