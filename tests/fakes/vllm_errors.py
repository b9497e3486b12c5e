"""Error and model shapes of vLLM 0.32, as recorded."""

from typing import Any

from aiohttp import web


class FakeError(Exception):
    def __init__(
        self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.param = status, kind, param

    def response(self) -> web.Response:
        error = {"message": str(self), "type": self.kind, "param": self.param, "code": self.status}
        return web.json_response({"error": error}, status=self.status)


def unknown_model(name: str, base_model: str) -> FakeError:
    text = f"The model `{name}` does not exist. Valid aliases: {base_model}."
    return FakeError(404, text, "NotFoundError", "model")


def model_entry(name: str, root: str, parent: str | None) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": 1796016644,
        "owned_by": "vllm",
        "root": root,
        "parent": parent,
        "max_model_len": None if parent else 1024,
    }
