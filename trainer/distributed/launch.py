"""How torchrun is started: its command, and what its processes may know of our environment.

Invariant: neither an address nor a secret of ours reaches them, and they listen on loopback alone.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from trainer.distributed.room import Room

_ROOT = Path(__file__).parents[2]
_OURS = re.compile(
    r"^(SLIPSTREAM_|DATABASE_URL|REDIS_URL|PG|POSTGRES_|CELERY_)|(_KEY|_SECRET|_PASSWORD)(_FILE)?$"
)


def command(room: Room, num_ranks: int) -> list[str]:
    """A meeting place that is a file: no port is opened for it."""
    return [
        *(sys.executable, "-m", "torch.distributed.run"),
        *("--nnodes", "1", "--nproc-per-node", str(num_ranks), "--max-restarts", "0"),
        *("--rdzv-backend", "c10d", "--rdzv-conf", "store_type=file"),
        *("--rdzv-endpoint", str(room.path / "torchrun"), "--rdzv-id", uuid4().hex),
        *("--local-addr", "127.0.0.1", "--log-dir", str(room.path / "logs")),
        *("-m", "trainer.distributed.rank", str(room.path)),
    ]


def environment(ours: Mapping[str, str], num_ranks: int, threads: int) -> dict[str, str]:
    """`threads`: of all ranks together; 0 = one for each core we may use."""
    cores = threads or usable_cores()
    return {name: value for name, value in ours.items() if not _OURS.search(name)} | {
        "OMP_NUM_THREADS": str(max(cores // num_ranks, 1)),
        "GLOO_SOCKET_IFNAME": loopback(),
        "NCCL_SOCKET_IFNAME": loopback(),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "PYTHONPATH": ":".join([str(_ROOT), *filter(None, [ours.get("PYTHONPATH")])]),
    }


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def loopback() -> str:
    return "lo0" if sys.platform == "darwin" else "lo"
