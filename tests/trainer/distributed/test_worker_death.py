"""A worker that is killed takes its ranks with it, and nothing of them is left on the disk."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from tests.trainer.distributed.test_ranks import SEVERAL, await_true, is_gone

WORKER = """
import sys, time
from tests.trainer.distributed.together import learn_together
from tests.trainer.tiny import random_samples
from trainer.distributed.ranks import Ranks
from trainer.parent import Parent
from trainer.settings import TrainerSettings

settings = TrainerSettings.model_validate_json(sys.argv[1])
ranks = Ranks(settings)
learn_together(ranks, Parent(), random_samples(1), settings)
print(ranks._room.path, flush=True)
time.sleep(60)
"""


def test_kill_9_of_the_worker_ends_torchrun_and_its_ranks_and_removes_the_room(settings_of) -> None:
    settings = settings_of(**SEVERAL)
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, settings.model_dump_json()], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    with worker.stdout:
        room = next(Path(line.strip()) for line in worker.stdout if line.startswith("/"))  # after its log
    pids = {child.pid for child in psutil.Process(worker.pid).children(recursive=True)}
    assert len(pids) == 3
    assert room.name.startswith("slipstream-ranks-")
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    await_true(lambda: all(map(is_gone, pids)))
    await_true(lambda: not room.exists())
