"""The ranks as the worker sees them: a model that other processes hold. They are started for the first step and kept.

Invariant: what goes wrong ends all of them, and the next step starts them anew; nothing of a step is left in between.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep

import structlog
import torch

from trainer.claim import Step
from trainer.distributed.launch import command, environment
from trainer.distributed.room import Job, Room, Start
from trainer.errors import BatchError, CheckpointError, RankError, SurroundingsError, TrainerError
from trainer.learned import Learned
from trainer.material import Material
from trainer.parent import Parent
from trainer.settings import TrainerSettings

logger = structlog.get_logger()
LOOK_SECONDS = 0.05
END_SECONDS = 10.0
LOG_LINES, LOG_CHARACTERS = 12, 2_000
_KNOWN: dict[str, type[TrainerError]] = {
    kind.__name__: kind for kind in (BatchError, SurroundingsError, CheckpointError)
}


class Ranks:
    """`learn` as often as there are steps; `end` when another model is wanted."""

    def __init__(self, settings: TrainerSettings) -> None:
        self.device = torch.device("cpu")
        self._settings = settings
        self._number = 0
        self._room: Room | None = None
        self._torchrun: subprocess.Popen[bytes] | None = None

    def learn(
        self,
        parent: Parent,
        material: Material,
        settings: TrainerSettings,
        step: Step,
        between_rows: Callable[[], None],
    ) -> Learned:
        """As `trainer.courses.learn`. Raises RankError when they die or fall silent, else what one process would raise."""
        try:
            room = self._started()
            self._number += 1
            room.write_job(self._number, Job(parent, material, settings, step))
            self._await_answer(room, between_rows)
            learned = room.read_answer(self._number)
            room.forget(self._number)
        except OSError as error:
            self.end()
            raise SurroundingsError(f"the trainer's processes cannot be reached: {error}") from error
        except BaseException:
            self.end()
            raise
        return learned

    def end(self) -> None:
        """Torchrun ends its ranks; should it not, their lifeline does."""
        torchrun, room, self._torchrun, self._room = self._torchrun, self._room, None, None
        if torchrun is not None:
            torchrun.terminate()
            assert torchrun.stdin is not None
            torchrun.stdin.close()
            try:
                torchrun.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                torchrun.kill()
                torchrun.wait()
        if room is not None:
            shutil.rmtree(room.path, ignore_errors=True)

    def _started(self) -> Room:
        if self._room is not None and self._torchrun is not None and self._torchrun.poll() is None:
            return self._room
        self.end()
        settings, self._number = self._settings, 0
        self._room = room = Room.make()
        room.write_start(_start_of(settings))
        with room.log.open("wb") as log:
            self._torchrun = subprocess.Popen(
                command(room, settings.processes),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment(os.environ, settings.processes, settings.threads),
                start_new_session=True,  # Ctrl-C is the worker's
            )
        logger.info("ranks_started", num_processes=settings.processes, shard=settings.shard)
        return room

    def _await_answer(self, room: Room, between_rows: Callable[[], None]) -> None:
        """Until it is there; meanwhile the lease is looked at, and whether they get on."""
        touched, touched_at = 0, monotonic()
        while not room.has_answer(self._number):
            between_rows()
            assert self._torchrun is not None
            if self._torchrun.poll() is not None or room.failures():
                raise self._failure(room)
            if (now_touched := room.last_touch()) != touched:
                touched, touched_at = now_touched, monotonic()
            if monotonic() - touched_at > self._settings.stall_seconds:
                raise RankError(
                    f"no process finished a row for {self._settings.stall_seconds:g} s "
                    f"(SLIPSTREAM_TRAINER_STALL_SECONDS). {_last_lines(room)}"
                )
            sleep(LOOK_SECONDS)

    def _failure(self, room: Room) -> TrainerError:
        """What the ranks wrote before they ended; of several the one that has a name, since others fail of its absence."""
        assert self._torchrun is not None
        with suppress(subprocess.TimeoutExpired):
            self._torchrun.wait(END_SECONDS)
        failures = room.failures()
        for failure in failures:
            if failure.kind in _KNOWN:
                return _KNOWN[failure.kind](failure.message)
        said = "".join(f" Process {each.rank}: {each.kind}: {each.message}." for each in failures[:1])
        return RankError(f"a process of the trainer ended.{said} {_last_lines(room)}")


def _start_of(settings: TrainerSettings) -> Start:
    return Start(
        device=settings.device,
        loaded_models=settings.loaded_models,
        is_sharded=settings.shard == "fsdp",
        stall_seconds=settings.stall_seconds,
    )


def _last_lines(room: Room) -> str:
    lines = room.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"Last lines of its log:\n{chr(10).join(lines[-LOG_LINES:])[-LOG_CHARACTERS:]}"
