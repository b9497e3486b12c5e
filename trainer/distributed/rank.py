"""`python -m trainer.distributed.rank ROOM`, started by torchrun: one of the processes that compute steps together.

Invariant: whatever ends it is written into the room first, so that the worker can say what it was.
"""

import os
import resource
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from time import sleep

import torch
import torch.distributed as dist

from trainer.courses import learn
from trainer.distributed import lifeline
from trainer.distributed.crew import Crew, gathered
from trainer.distributed.deal import ModelSize
from trainer.distributed.held import Held
from trainer.distributed.room import Failure, Job, Room, Start
from trainer.errors import SurroundingsError
from trainer.learned import Learned
from trainer.memory import peak_memory_mib
from trainer.policy_model import PolicyModel, pick_device
from trainer.randomness import seeded

LOOK_SECONDS = 0.05


def main(path: str) -> None:
    room, rank = Room(Path(path)), int(os.environ["RANK"])
    lifeline.hold(room.path, is_first=rank == 0)
    try:
        serve(room, rank, int(os.environ["WORLD_SIZE"]))
    except Exception as error:
        room.write_failure(Failure(rank, type(error).__name__, str(error)))
        raise


def serve(room: Room, rank: int, num_ranks: int) -> None:
    """One job after the other, without end."""
    start = room.read_start()
    device = device_of(start, int(os.environ["LOCAL_RANK"]))
    join(room, start, rank, num_ranks)
    held = Held(start, device)
    for number in count(1):
        while not room.has_job(number):
            sleep(LOOK_SECONDS)
        room.touch(rank)
        job = room.read_job(number)
        model = held.get(job.settings)
        model.peers = Crew(rank, num_ranks, ModelSize.of(model), start.is_sharded)
        learned = compute(job, model, partial(room.touch, rank))
        if rank == 0:
            room.write_answer(number, learned)


def compute(job: Job, model: PolicyModel, get_on: Callable[[], None]) -> Learned:
    """What all ranks come to, with the memory of the fullest."""
    get_on()
    with seeded(job.step.seed, model.device):
        learned = learn(model, job.parent, job.material, job.settings, job.step, get_on)
    memory = [each["peak_memory_mib"] for each in gathered({"peak_memory_mib": peak_memory_mib()})]
    learned.metrics["peak_memory_mib"] = max(memory)
    return learned


def device_of(start: Start, local_rank: int) -> torch.device:
    """A device for each rank. Raises SurroundingsError where there are fewer GPUs than ranks."""
    device = pick_device(start.device)
    if device.type == "cpu":
        return device
    if local_rank >= torch.cuda.device_count():
        raise SurroundingsError(
            f"there are {torch.cuda.device_count()} GPUs: SLIPSTREAM_TRAINER_PROCESSES can be no more"
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def join(room: Room, start: Start, rank: int, num_ranks: int) -> None:
    """Tensors of a GPU go by NCCL, all others by gloo; they meet at a file, not at a port."""
    on_gpu = pick_device(start.device).type == "cuda"
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
        init_method=f"file://{room.path}/meeting",
        rank=rank,
        world_size=num_ranks,
        timeout=timedelta(seconds=start.stall_seconds),
    )


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core would hold prompts
    main(sys.argv[1])
