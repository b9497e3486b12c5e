"""The room: the private directory through which the worker and its ranks speak. Safetensors and msgpack, never pickle.

Invariant: what has its name is complete. It is written beside it and renamed.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainer.claim import Step
from trainer.learned import Learned
from trainer.material import Material
from trainer.parent import Parent
from trainer.settings import PLACE_FIELDS, TrainerSettings

# Where things are is none of a rank's business, and may hold a password.
_PLACES = PLACE_FIELDS - {"base_model"}
_NOWHERE = {"database_url": "", "redis_url": "", "upstream_urls": ["http://nowhere.invalid"]}  # required ones


@dataclass(frozen=True, slots=True)
class Start:
    """What ranks must know before their first job; which model it is about says each job's settings."""

    device: str
    loaded_models: int
    is_sharded: bool
    stall_seconds: float


@dataclass(frozen=True, slots=True)
class Job:
    parent: Parent
    material: Material
    settings: TrainerSettings
    step: Step


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a rank ended. `kind`: the error's class."""

    rank: int
    kind: str
    message: str


class Room:
    """One directory, of mode 0700."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "log"

    @classmethod
    def make(cls) -> "Room":
        return cls(Path(tempfile.mkdtemp(prefix="slipstream-ranks-")))

    def write_start(self, start: Start) -> None:
        self._write("start", start)

    def read_start(self) -> Start:
        return msgspec.msgpack.decode(self._read("start"), type=Start)

    def write_job(self, number: int, job: Job) -> None:
        settings = job.settings.model_dump(mode="json", exclude=set(_PLACES)) | _NOWHERE
        told = {
            "settings": settings,
            "optimizer_step": job.parent.optimizer_step,
            "material": job.material,
            "step": job.step,
        }
        tensors = {"adapter": job.parent.adapter, "moments": job.parent.moments}
        self._write_directory(f"job-{number}", told, {k: v for k, v in tensors.items() if v is not None})

    def has_job(self, number: int) -> bool:
        return (self.path / f"job-{number}").exists()

    def read_job(self, number: int) -> Job:
        told, tensors = self._read_directory(f"job-{number}")
        parent = Parent(tensors.get("adapter"), tensors.get("moments"), told["optimizer_step"])
        material, step = msgspec.convert(told["material"], Material), msgspec.convert(told["step"], Step)
        return Job(parent, material, TrainerSettings(**told["settings"]), step)

    def write_answer(self, number: int, learned: Learned) -> None:
        told = {name: getattr(learned, name) for name in ("config", "optimizer_step", "probe", "metrics")}
        tensors = {"adapter": learned.adapter, "moments": learned.moments}
        self._write_directory(f"answer-{number}", told, tensors)

    def has_answer(self, number: int) -> bool:
        return (self.path / f"answer-{number}").exists()

    def read_answer(self, number: int) -> Learned:
        told, tensors = self._read_directory(f"answer-{number}")
        return Learned(**told, adapter=tensors["adapter"], moments=tensors["moments"])

    def forget(self, number: int) -> None:
        """A job that is done, and its answer: they hold what users wrote."""
        shutil.rmtree(self.path / f"answer-{number}")
        shutil.rmtree(self.path / f"job-{number}")

    def write_failure(self, failure: Failure) -> None:
        self._write(f"failure-{failure.rank}", failure)

    def failures(self) -> list[Failure]:
        found = sorted(self.path.glob("failure-*"))
        return [msgspec.msgpack.decode(path.read_bytes(), type=Failure) for path in found]

    def touch(self, rank: int) -> None:
        """This rank gets on."""
        (self.path / f"alive-{rank}").touch()

    def last_touch(self) -> int:
        """A number that grows whenever a rank gets on."""
        return max((path.stat().st_mtime_ns for path in self.path.glob("alive-*")), default=0)

    def _write(self, name: str, value: Any) -> None:
        aside = self.path / f".{name}.{uuid4().hex}"
        aside.write_bytes(msgspec.msgpack.encode(value))
        aside.rename(self.path / name)

    def _read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def _write_directory(
        self, name: str, told: dict[str, Any], tensors: dict[str, dict[str, Tensor]]
    ) -> None:
        aside = self.path / f".{name}.{os.getpid()}"
        aside.mkdir()
        for part, each in tensors.items():
            save_file(each, aside / f"{part}.safetensors")
        (aside / "told").write_bytes(msgspec.msgpack.encode(told))
        aside.rename(self.path / name)

    def _read_directory(self, name: str) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]]:
        place = self.path / name
        told = msgspec.msgpack.decode((place / "told").read_bytes())
        return told, {path.stem: load_file(path) for path in place.glob("*.safetensors")}
