"""Before a new line begins: whether every model server takes an adapter of its shape. What none serves is never trained.

It is asked with an adapter that changes nothing: the live one's layers, in the new rank, all zero. Where adapters go through
a store (SLIPSTREAM_ADAPTERS_URL) nobody is asked, and publishing finds it out.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from uuid import uuid4

import structlog
import torch
from safetensors.torch import save as save_safetensors
from sqlalchemy import Engine

from ledger.policies import adapter_name
from trainer.adapter_files import CONFIG, WEIGHTS, check_adapter, write_directory
from trainer.errors import AdapterRefusedError, PublishError, ReplicaRefusedError
from trainer.learners import Learner
from trainer.new_line import NextParent, Shape, next_parent
from trainer.replica import Replica
from trainer.settings import TrainerSettings

logger = structlog.get_logger()
AGAIN_SECONDS = 60.0
_Asked = tuple[tuple[str, ...], str, Shape]  # which servers, for which line


@dataclass(slots=True)
class ServableShapes:
    """What the servers said: yes for good, no for a minute."""

    clock: Callable[[], float] = monotonic
    confirmed: set[_Asked] = field(default_factory=set)
    refused_at: dict[_Asked, float] = field(default_factory=dict)

    def allows(self, engine: Engine, learner: Learner) -> bool:
        """Whether the policy's next step may begin: always, but where it begins a line that some server cannot serve."""
        with engine.connect() as connection:
            policy, settings = learner.policy, learner.settings
            parent = next_parent(connection, policy, policy.live_version, settings)
        asked = (settings.upstream_urls, policy.line, parent.shape)
        if not parent.is_new_line or asked in self.confirmed or settings.adapters_url is not None:
            return True  # what lies in a store is there for good: nothing is tried out by it
        if self.clock() - self.refused_at.get(asked, -AGAIN_SECONDS) < AGAIN_SECONDS:
            return False
        try:
            ask_servers(settings, policy.line, parent)
        except (PublishError, AdapterRefusedError, OSError) as error:
            self.refused_at[asked] = self.clock()
            logger.warning("new_line_refused", policy=policy.line, reason=_reason(parent, error))
            return False
        self.confirmed.add(asked)
        return True


def ask_servers(settings: TrainerSettings, line: str, parent: NextParent) -> None:
    """Load an empty adapter of the shape on each, and forget it. Raises PublishError, AdapterRefusedError or OSError."""
    name = f"{line}@try-{uuid4().hex[:8]}"
    directory = settings.adapters / name
    write_directory(
        directory,
        empty_adapter(settings.adapters / adapter_name(line, parent.live_version), parent.shape),
        "",
    )
    try:
        for url in settings.upstream_urls:
            with Replica(url, settings.replica_timeout_seconds) as replica:
                replica.load(name, str(directory.resolve()))
                replica.unload(name)
    finally:
        shutil.rmtree(directory)


def empty_adapter(live: Path, shape: Shape) -> dict[str, bytes]:
    """The files of an adapter with the layers of `live`, of another rank and alpha, that changes nothing."""
    rank, alpha = shape
    tensors = {
        name: torch.zeros((rank, tensor.shape[1]) if ".lora_A." in name else (tensor.shape[0], rank))
        for name, tensor in check_adapter(live).items()
    }
    config = json.loads((live / CONFIG).read_text(encoding="utf-8")) | {"r": rank, "lora_alpha": alpha}
    return {
        CONFIG: json.dumps(config).encode(),
        WEIGHTS: save_safetensors(tensors, metadata={"format": "pt"}),
    }


def _reason(parent: NextParent, error: Exception) -> str:
    rank, alpha = parent.shape
    old_rank, old_alpha = parent.old_shape or parent.shape
    said = (
        f"a line of rank {rank} and alpha {alpha:g} would begin after version {parent.live_version}: {error}"
    )
    if isinstance(error, ReplicaRefusedError):
        said += (
            f"; start vLLM with --max-lora-rank {rank} or more, or set SLIPSTREAM_LORA_RANK and SLIPSTREAM_LORA_ALPHA back "
            f"to {old_rank} and {old_alpha:g}"
        )
    return said
