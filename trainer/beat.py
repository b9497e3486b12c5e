"""Beat's scheduler: the schedule lives in memory, and each message that the broker took is a sign of life."""

from pathlib import Path
from typing import Any

from celery.beat import Scheduler

from trainer.health import touch


def scheduler_with(health_file: Path | None) -> type[Scheduler]:
    """A scheduler class that touches `health_file` (None: no file) whenever a message was sent."""

    class SignOfLife(Scheduler):  # type: ignore[misc]
        def apply_async(self, *args: Any, **kwargs: Any) -> Any:
            sent = super().apply_async(*args, **kwargs)
            touch(health_file)
            return sent

    return SignOfLife
