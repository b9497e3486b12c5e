"""Records that Postgres refused: files in `rejected/` of the spool, tried again when that may help, never deleted before
their commit.

`PROCESS.CALL_ID.call` is the call as in a spool (ledger/codec.py) with its process, its number and the error's name.
"""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import structlog

from ledger.audit.call_numbers import Spooled
from ledger.audit.capture import Report
from ledger.codec import call_of, call_pieces, decode_held
from ledger.durable import sync_path
from ledger.recording_session import TRY_AGAIN, RecordingSession
from ledger.request_body import derived

_LOG = structlog.get_logger()
REJECTED = "rejected"
ENDING = ".call"
_OLD_ENDING = ".json"  # the same, without process and number; MessagePack all the same


class RejectedCall(NamedTuple):
    process: str | None
    spooled: Spooled


def set_aside(root: Path, process: str, spooled: Spooled, error: Exception) -> Path:
    """Durable when this returns. Raises OSError."""
    record, number = spooled
    directory = root / REJECTED
    directory.mkdir(exist_ok=True)
    path = directory / f"{process}.{record.call_id}{ENDING}"
    newborn = path.with_suffix(".new")
    pieces = call_pieces(record, number=number, process=process, refused_by=type(error).__name__)
    with newborn.open("wb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())
    newborn.rename(path)
    sync_path(directory)
    _LOG.error("record_rejected", call_id=str(record.call_id), error=type(error).__name__, path=str(path))
    return path


def rejected_paths(root: Path) -> list[Path]:
    """Oldest first."""
    found = [path for path in (root / REJECTED).glob("*") if path.suffix in {ENDING, _OLD_ENDING}]
    return sorted(found, key=lambda path: (_changed_at(path), path.name))


def _changed_at(path: Path) -> float:
    """0 where another process has committed it meanwhile."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def read_rejected(path: Path) -> RejectedCall:
    """Raises OSError, and what ledger.codec.UNDECODABLE lists."""
    held = decode_held(path.read_bytes())
    process, number = held.get("process"), held.get("number")
    return RejectedCall(process, Spooled(derived(call_of(held)), number))


def replay(paths: Iterable[Path], root: Path, session: RecordingSession) -> Counter[str]:
    """How many were `committed`, and how many `refused` again. Raises what TRY_AGAIN lists: then the rest is untried."""
    results: Counter[str] = Counter()
    for path in paths:
        try:
            _replay(path, root, session)
        except FileNotFoundError:  # another process was faster
            continue
        except TRY_AGAIN:
            raise
        except Exception as error:  # noqa: BLE001 - its own fault, as it was before
            results["refused"] += 1
            _LOG.warning("rejected_again", path=str(path), error=type(error).__name__)
        else:
            results["committed"] += 1
            _LOG.info("rejected_committed", path=str(path))
    return results


def _replay(path: Path, root: Path, session: RecordingSession) -> None:
    process, spooled = read_rejected(path)
    reports = [Report(process, root).commit([spooled]).question()] if process else []
    session.record([spooled.record], *reports)
    path.unlink(missing_ok=True)
