"""TensorBoard: one directory of event files for each line of versions, written by tensorboardX, which needs no torch.

It is asked for its `EventsWriter` and not for its `SummaryWriter`: that one hands events to a thread, whose errors nobody
hears of, and its `flush` does not wait for it. This one raises where the disk is full, and `flush` is an fsync.
"""

from pathlib import Path
from typing import Any
from uuid import uuid4

from ledger.policies import Policy
from trainer.sinks.sink import figures_of, run_name, tag


class TensorBoardSink:
    name = "tensorboard"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writers: dict[str, Any] = {}  # by run

    def write(self, policy: Policy, row: dict[str, Any]) -> None:
        """At the step's number and the time at which it was published."""
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import scalar

        writer = self._writer(run_name(policy), row["version"])
        values = [scalar(tag(figure), value).value[0] for figure, value in figures_of(row)]
        event = Event(wall_time=row["finished_at"].timestamp(), step=row["version"])
        event.summary.value.extend(values)
        writer.write_event(event)
        writer.flush()

    def close(self) -> None:
        writers, self._writers = self._writers, {}
        for writer in writers.values():
            writer.close()

    def _writer(self, run: str, version: int) -> Any:
        """A run that is gone on with forgets what an earlier process wrote of this version and later ones."""
        if run not in self._writers:
            from tensorboardX.event_file_writer import EventsWriter
            from tensorboardX.proto.event_pb2 import Event, SessionLog

            (self.folder / run).mkdir(parents=True, exist_ok=True)
            # A file is named after the second and the host: two of one second would overwrite each other.
            writer = EventsWriter(str(self.folder / run / "events"), f".{uuid4().hex[:8]}")
            writer.write_event(Event(step=version, session_log=SessionLog(status=SessionLog.START)))
            self._writers[run] = writer
        return self._writers[run]
