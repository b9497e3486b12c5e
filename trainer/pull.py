"""The puller: beside each vLLM that shares no file system with the trainer it brings published adapters to the local disk.

Invariant: it only adds. A directory that has its name is whole, and is never written again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from trainer.errors import TrainerError
from trainer.pull_settings import PullSettings
from trainer.store import Store

logger = structlog.get_logger()


def pull_for_ever(store: Store, settings: PullSettings, wait: Callable[[float], bool]) -> None:
    """Until `wait` says that it is time to stop. What fails is logged, and tried again."""
    while True:
        pull(store, settings.adapters)
        if wait(settings.seconds):
            return


def pull(store: Store, root: Path) -> list[str]:
    """The names that were missing and now are there. One that cannot be had keeps no other from coming."""
    with _logged():
        return [name for name in store.missing(root) if _is_fetched(store, name, root)]
    return []


def _is_fetched(store: Store, name: str, root: Path) -> bool:
    with _logged():
        store.fetch(name, root)
        logger.info("adapter_pulled", adapter=name)
        return True
    return False


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except (TrainerError, OSError, ValueError) as error:
        logger.warning("adapters_not_pulled", error=str(error) or type(error).__name__)
