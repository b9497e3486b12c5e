"""A small vLLM stand-in on a real loopback port that loads adapters from disk and answers with their real logprobs.

It speaks what the trainer uses: load, unload, /v1/models and one-token completions. Faults are attributes.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from bench.crashes.replica import serving
from trainer.policy_model import LoraShape, PolicyModel


class FakeReplica:
    def __init__(self, base_model: Path) -> None:
        self.model = PolicyModel.load(str(base_model), LoraShape(), seed=99, device=torch.device("cpu"))
        self.adapters: dict[str, dict[str, torch.Tensor]] = {}
        self.shapes: dict[str, LoraShape] = {}
        self.max_rank = 512
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.url = ""
        self.load_error: tuple[int, str] | None = None
        self.answers_as: str | None = None  # names another model in its replies
        self.serves: str | None = None  # computes with another adapter than the name says
        self.is_failing = False  # 503 to everything
        self.disk: Path | None = None  # where its adapters are, if not where the trainer's are

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.calls.append((path, body))
        if self.is_failing:
            return 503, {"error": {"message": "engine is starting", "code": 503}}
        if path == "/v1/models":
            return 200, {
                "object": "list",
                "data": [{"id": "base"}, *({"id": name} for name in self.adapters)],
            }
        if path == "/v1/load_lora_adapter":
            return self.load(body["lora_name"], Path(body["lora_path"]))
        if path == "/v1/unload_lora_adapter":
            return (200, "Success") if self.adapters.pop(body["lora_name"], None) else (404, "not found")
        return self.complete(body)

    def load(self, name: str, path: Path) -> tuple[int, Any]:
        if self.load_error:
            return self.load_error[0], {"error": {"message": self.load_error[1], "code": self.load_error[0]}}
        if name in self.adapters:
            message = f"The lora adapter '{name}' has already been loaded. If you want to load the adapter in place, ..."
            return 400, {"error": {"message": message, "type": "InvalidUserInput", "code": 400}}
        path = path if self.disk is None else self.disk / path.name
        if not path.is_dir():
            return 404, {"error": {"message": f"Loading lora {name} failed: No adapter found for {path}"}}
        config = json.loads((path / "adapter_config.json").read_text())
        if config["r"] > self.max_rank:
            message = f"LoRA rank {config['r']} is greater than max_lora_rank {self.max_rank}."
            return 500, {"error": {"message": message, "code": 500}}
        self.shapes[name] = LoraShape(config["r"], float(config["lora_alpha"]))
        self.adapters[name] = load_file(path / "adapter_model.safetensors")
        return 200, f"Success: LoRA adapter '{name}' added successfully."

    def complete(self, body: dict[str, Any]) -> tuple[int, Any]:
        name = body["model"]
        if name not in self.adapters:
            return 404, {"error": {"message": f"The model `{name}` does not exist.", "code": 404}}
        served = self.serves or name
        shape = self.shapes.get(served, self.model.shape)
        if self.model.shape != shape:
            self.model = self.model.with_shape(shape, seed=99)
        self.model.reset(self.adapters[served], None)
        values = self.model.next_token_logprobs(body["prompt"])
        token = int(values.argmax())
        choice = {"index": 0, "logprobs": {"token_logprobs": [float(values[token])]}, "token_ids": [token]}
        return 200, {"id": "cmpl-0", "model": self.answers_as or name, "choices": [choice]}

    def paths(self) -> list[str]:
        return [path for path, _ in self.calls]


@contextmanager
def running_replica(base_model: Path) -> Iterator[FakeReplica]:
    with serving(FakeReplica(base_model)) as replica:
        yield replica
