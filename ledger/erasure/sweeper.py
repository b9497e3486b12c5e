"""What a proxy's writer does for erasures: its own spool forgets, too, within seconds.

Called by the writer's thread alone, between batches: nobody else reads this spool's frames. Calls that were on their
way when the erasure came are swept once their skeletons are committed.
"""

import time
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import structlog
from sqlalchemy import Connection, text

from ledger.erasure.frames import Erased
from ledger.erasure.subject import digests_of
from ledger.erasure.tombstones import Stones, is_buried, stones_of
from ledger.errors import SpoolError
from ledger.recording_session import RecordingSession
from ledger.spool.spool import Spool

_LOG = structlog.get_logger()
_EVERY_SECONDS = 2.0
_NOW = text("SELECT now()")
# A transaction's time is that of its beginning: one that took a minute is still seen.
_NEW = text("""
    SELECT p.name, t.subject_sha256, t.before_id, t.created_at FROM tombstones AS t
    JOIN projects AS p ON p.id = t.project_id WHERE t.created_at > :since - interval '1 minute'
""")


class Sweeper:
    def __init__(self, spool: Spool, session: RecordingSession) -> None:
        self._spool = spool
        self._session = session
        self._since: datetime | None = None
        self._seen: set[tuple[str, bytes, UUID]] = set()
        self._look_at = 0.0
        self._late: set[UUID] = set()

    def add(self, call_ids: Sequence[UUID]) -> None:
        """Calls that were erased as they were recorded, and are committed: their frames are full."""
        self._late.update(call_ids)

    def look(self) -> None:
        """Are there new tombstones, or late calls? Those from before this process concern no call of its spool but late ones."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _EVERY_SECONDS
        try:
            self._look()
        except Exception as error:  # noqa: BLE001 - Postgres is away: what waits is erased when it is back
            _LOG.warning("sweep_failed", error=type(error).__name__)

    def _look(self) -> None:
        if self._late:
            self._sweep(self._late)
            self._late.clear()
        if self._since is None:
            self._since = self._session.ask(lambda connection: connection.scalar(_NOW))
        seen, since = self._seen, self._since
        stones = self._session.ask(self._new_stones)
        if not stones:
            return
        try:
            self._sweep(lambda call: is_buried(call.call_id, call.project, digests_of(call), stones))
        except (SpoolError, OSError):
            self._seen, self._since = seen, since  # with the next look
            raise

    def _new_stones(self, connection: Connection) -> Stones:
        rows = connection.execute(_NEW, {"since": self._since}).all()
        new = [row for row in rows if (row.name, row.subject_sha256, row.before_id) not in self._seen]
        self._seen = {(row.name, row.subject_sha256, row.before_id) for row in rows}
        self._since = max((row.created_at for row in rows), default=self._since)
        return stones_of((row.name, row.subject_sha256, row.before_id) for row in new)

    def _sweep(self, is_erased: Erased) -> None:
        num_frames = self._spool.erase(is_erased)
        _LOG.info("spool_swept", num_frames=num_frames)
