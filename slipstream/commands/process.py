"""`slipstream proxy`, `worker`, `beat`, `migrate`: one process each, configured by environment and settings file.

Settings are read before the rest is imported: a wrong one is told at once.
"""

import typer

from slipstream.configuration import check
from slipstream.errors import SlipstreamError
from slipstream.running import find_running
from slipstream.settings import StackSettings


def proxy() -> None:
    """Serve OpenAI's API and record what passes (one process)."""
    from proxy.settings import ProxySettings

    check(ProxySettings)
    settings = ProxySettings.from_environment()
    from proxy.server import serve

    serve(settings)


def worker() -> None:
    """Train on scored groups and publish versions (one process)."""
    from trainer.errors import TrainerError
    from trainer.judge.settings import JudgeSettings
    from trainer.settings import TrainerSettings
    from trainer.siblings.settings import SiblingSettings

    check(TrainerSettings, JudgeSettings, SiblingSettings)
    settings, judge_settings = TrainerSettings.from_environment(), JudgeSettings.from_environment()
    from trainer.worker import run_worker

    try:
        run_worker(settings, judge_settings)
    except TrainerError as error:
        raise SlipstreamError(str(error)) from error


def beat() -> None:
    """Send the periodic ticks (one process)."""
    from trainer.settings import TrainerSettings

    check(TrainerSettings)
    settings = TrainerSettings.from_environment()
    from trainer.worker import run_beat

    run_beat(settings)


def migrate() -> None:
    """Bring the database's schema to this version, make the bootstrap key if one is named, then exit."""
    from migrations import migrate as migrate_database

    check(StackSettings)
    settings = StackSettings()
    url = find_running().require("DATABASE_URL")
    before, after = migrate_database(url)
    is_same = before == after
    typer.echo(
        f"The schema is up to date ({after})." if is_same else f"Schema: {before or 'none'} → {after}."
    )
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
