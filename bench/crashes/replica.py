"""Small vLLMs, as far as publishing goes: they load adapters from disk and answer probes with their real logprobs."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Protocol, TypeVar

import torch
from safetensors.torch import load

from trainer.adapter_files import WEIGHTS
from trainer.policy_model import LoraShape, PolicyModel

Adapter = tuple[str, dict[str, torch.Tensor]]  # the digest of its file, its tensors


class SmallReplica:
    def __init__(self, base_model: Path) -> None:
        self._model = PolicyModel.load(str(base_model), LoraShape(), seed=0, device=torch.device("cpu"))
        self._lock = Lock()  # it has one model, and several workers may ask
        self._adapters: dict[str, Adapter] = {}
        self.url = ""

    def forget(self) -> None:
        with self._lock:
            self._adapters.clear()

    def digests(self) -> dict[str, str]:
        """What it has loaded: names, and the digest of the bytes that it read."""
        with self._lock:
            return {name: digest for name, (digest, _) in self._adapters.items()}

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        with self._lock:
            if path == "/v1/load_lora_adapter":
                return self._load(body["lora_name"], Path(body["lora_path"]))
            if path == "/v1/unload_lora_adapter":
                self._adapters.pop(body["lora_name"], None)
                return 200, "Success"
            if path == "/v1/models":
                return 200, {"object": "list", "data": [{"id": name} for name in self._adapters]}
            return self._complete(body)

    def _load(self, name: str, path: Path) -> tuple[int, Any]:
        if name in self._adapters:
            return 400, {
                "error": {"message": f"The lora adapter '{name}' has already been loaded.", "code": 400}
            }
        content = (path / WEIGHTS).read_bytes()
        self._adapters[name] = (hashlib.sha256(content).hexdigest(), load(content))
        return 200, f"Success: LoRA adapter '{name}' added successfully."

    def _complete(self, body: dict[str, Any]) -> tuple[int, Any]:
        name = body["model"]
        if name not in self._adapters:
            return 404, {"error": {"message": f"The model `{name}` does not exist.", "code": 404}}
        self._model.reset(self._adapters[name][1], None)
        values = self._model.next_token_logprobs(body["prompt"])
        token = int(values.argmax())
        choice = {"index": 0, "logprobs": {"token_logprobs": [float(values[token])]}, "token_ids": [token]}
        return 200, {"id": "cmpl-0", "model": name, "choices": [choice]}


class Answering(Protocol):
    url: str

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]: ...


Some = TypeVar("Some", bound=Answering)


@contextmanager
def serving(replica: Some) -> Iterator[Some]:
    """On a free loopback port, from threads of this process."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            self._reply(*replica.answer(self.path, json.loads(self.rfile.read(length) or b"{}")))

        def do_GET(self) -> None:
            self._reply(*replica.answer(self.path, {}))

        def _reply(self, status: int, content: Any) -> None:
            body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
            with suppress(ConnectionError):  # whoever asked was killed
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    replica.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield replica
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
