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
    """Bring the database's schema to this version, make the bootstrap key if one is named, then exit."""
    from migrations import migrate as migrate_database

    settings = StackSettings()
    if settings.database_url is None:
        raise UsageError("DATABASE_URL is not set: it says which database to migrate.")
    url = settings.database_url.get_secret_value()
    migrate_database(url)
    if settings.bootstrap_key:
        make_bootstrap_key(url, settings.bootstrap_key.get_secret_value())


def make_bootstrap_key(url: str, key: str) -> None:
    """The operator's first key, with every scope, unless it is there already. A revoked one stays revoked."""
    from ledger.database import sync_engine
    from ledger.keys import ensure_key
    from ledger.vocabulary import Scope

    engine = sync_engine(url, pool_size=1)
    try:
        with engine.begin() as connection:
            ensure_key(connection, key, Scope, name="bootstrap")
    finally:
        engine.dispose()
