"""A worker's sign of life: a file whose age is the time since a tick ended or a lease was extended.

"The process lives" says little: a worker can go deaf. A health check looks at this file's age (B103).
"""

from contextlib import suppress
from pathlib import Path


def touch(path: Path | None) -> None:
    if path is not None:
        with suppress(OSError):
            path.touch()
