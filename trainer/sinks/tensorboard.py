"""TensorBoard: one directory of event files for each line of versions, written by tensorboardX, which needs no torch."""

from pathlib import Path
from typing import Any

from ledger.policies import Policy
from trainer.sinks.sink import figures_of, run_name, tag


class TensorBoardSink:
    name = "tensorboard"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writers: dict[str, Any] = {}  # by run

    def write(self, policy: Policy, row: dict[str, Any]) -> None:
        """At the step's number and the time at which it was published."""
        writer, version = self._writer(run_name(policy), row["version"]), row["version"]
        for figure, value in figures_of(row):
            writer.add_scalar(
                tag(figure),
                value,
                version,
                walltime=row["finished_at"].timestamp(),
                summary_description=figure.meaning,
            )
        writer.flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _writer(self, run: str, version: int) -> Any:
        """A run that is gone on with forgets what an earlier process wrote of this version and later ones."""
        if run not in self._writers:
            from tensorboardX import SummaryWriter

            self._writers[run] = SummaryWriter(str(self.folder / run), purge_step=version)
        return self._writers[run]
