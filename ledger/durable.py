"""What it takes for a name on disk to survive a power cut: its directory is flushed too."""

import os
from pathlib import Path


def sync_path(path: Path) -> None:
    """Fsync of a file or a directory. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
