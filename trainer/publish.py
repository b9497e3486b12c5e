"""Publishing: every replica has the version and proves it, or none of it counts (I7).

`live` is not moved here but in one transaction with the step's own state (trainer.transitions.to_published).
"""

from collections.abc import Callable

import structlog

from ledger.policies import adapter_name
from trainer.adapter_files import check_adapter
from trainer.checkpoint import Saved
from trainer.errors import AdapterRefusedError, PublishError, ReplicaRefusedError
from trainer.probe import tolerance_of
from trainer.replica import Replica
from trainer.settings import TrainerSettings
from trainer.store import Store

logger = structlog.get_logger()


def load_and_probe(
    settings: TrainerSettings, saved: Saved, between_replicas: Callable[[], None] = lambda: None
) -> float:
    """The largest probe difference over all replicas. Raises PublishError; `live` must then stay where it is."""
    try:
        check_adapter(saved.directory, saved.sha256)
    except AdapterRefusedError as error:
        raise ReplicaRefusedError(str(error)) from error
    if settings.adapters_url is not None:
        push(settings.adapters_url, saved)
    probe, worst = saved.state["probe"], 0.0
    tolerance = tolerance_of(probe, settings.probe_tolerance)
    for url in settings.upstream_urls:
        between_replicas()
        with Replica(url, settings.replica_timeout_seconds) as replica:
            replica.load(
                saved.name, str(saved.directory.resolve()), is_pulled=settings.adapters_url is not None
            )
            worst = max(worst, replica.probe(saved.name, probe, tolerance))
    return worst


def push(url: str, saved: Saved) -> None:
    """Into the adapters' store, from where each replica's machine pulls it."""
    try:
        Store(url).push(saved.name, saved.directory)
    except AdapterRefusedError as error:
        raise ReplicaRefusedError(str(error)) from error


def unload_old_versions(settings: TrainerSettings, line: str, live_version: int) -> list[str]:
    """Best effort: names older than live - SLIPSTREAM_KEEP_VERSIONS leave every replica that answers."""
    unloaded = []
    for url in settings.upstream_urls:
        try:
            with Replica(url, settings.replica_timeout_seconds) as replica:
                for version in replica.loaded_versions(line):
                    if 0 < version < live_version - settings.keep_versions:
                        replica.unload(adapter_name(line, version))
                        unloaded.append(adapter_name(line, version))
        except (PublishError, ValueError) as error:
            logger.warning("versions_not_unloaded", url=url, error=str(error))
    return unloaded
