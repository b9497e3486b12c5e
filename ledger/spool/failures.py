"""What the disk says about the spool, as one sentence with the remedy."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledger.errors import SpoolError, SpoolFullError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = SpoolFullError if error.errno in _FULL else SpoolError
        raise kind(f"{kind.__doc__} ({path}: {error.strerror})") from error
