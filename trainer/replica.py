"""One vLLM replica as the trainer talks to it: load, probe, list, unload. Every call is bounded in time.

The routes are vLLM's own management routes, which only the inner network reaches.
"""

from types import TracebackType
from typing import Any, Self

import httpx2

from trainer.errors import ReplicaRefusedError, ReplicaUnreachableError

BAD_REQUEST = 400
_NOT_NOW = (408, 429, 502, 503, 504)


class Replica:
    """A context manager over one connection pool to one base URL."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self.url = url
        timeout = httpx2.Timeout(timeout_seconds, connect=min(5.0, timeout_seconds))
        self._client = httpx2.Client(base_url=url, timeout=timeout, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def load(self, name: str, path: str, *, is_pulled: bool = False) -> None:
        """Idempotent: vLLM refuses a name that it has with 400, and that is what we want (B148).

        `is_pulled`: its machine pulls adapters from a store, so one that is not there yet is waited for.
        """
        answer = self._send("POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": path})
        if is_pulled and answer.status_code >= BAD_REQUEST and "No adapter found" in answer.text:
            raise ReplicaUnreachableError(
                f"{self.url} has no {name} yet: does `slipstream adapters pull` run on its machine?"
            )
        if answer.status_code >= BAD_REQUEST and "already been loaded" not in answer.text:
            raise ReplicaRefusedError(f"{self.url} refused to load {name}: {_first_line(answer)}")

    def probe(self, name: str, probe: dict[str, Any], tolerance: float) -> float:
        """|its logprob - the trainer's| of the token that the replica answers. Raises ReplicaRefusedError if the
        reply names another model, or the two differ by more than `tolerance`.
        """
        body = {
            "model": name,
            "prompt": probe["prompt_ids"],
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": 1,
            "return_token_ids": True,
        }
        answer = self._send("POST", "/v1/completions", body)
        if answer.status_code >= BAD_REQUEST:
            raise ReplicaRefusedError(f"{self.url} refused the probe of {name}: {_first_line(answer)}")
        try:
            reply = answer.json()
            choice = reply["choices"][0]
            answered_model, token_id = reply["model"], choice["token_ids"][0]
            logprob = float(choice["logprobs"]["token_logprobs"][0])
        except (ValueError, LookupError, TypeError) as error:
            raise ReplicaRefusedError(
                f"{self.url} answered the probe of {name} with something else"
            ) from error
        if answered_model != name:
            raise ReplicaRefusedError(f"{self.url} answered the probe of {name} as {answered_model}")
        return _difference(self.url, name, dict(probe["top"]), token_id, logprob, tolerance)

    def loaded_versions(self, line: str) -> list[int]:
        """Versions of a policy's line that this replica has, by its /v1/models."""
        names = [str(model.get("id", "")) for model in self._send("GET", "/v1/models").json().get("data", [])]
        versions = [name.rpartition("@") for name in names]
        return sorted(int(n) for of, _, n in versions if of == line and n.isdecimal())

    def unload(self, name: str) -> None:
        """Forget the name; one that is not there is fine."""
        self._send("POST", "/v1/unload_lora_adapter", {"lora_name": name})

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx2.Response:
        try:
            answer = self._client.request(method, path, json=body)
        except httpx2.TransportError as error:
            raise ReplicaUnreachableError(f"{self.url} does not answer ({type(error).__name__})") from error
        if answer.status_code in _NOT_NOW:
            raise ReplicaUnreachableError(f"{self.url} answers {answer.status_code}: {_first_line(answer)}")
        return answer


def _difference(
    url: str, name: str, top: dict[int, float], token_id: int, logprob: float, tolerance: float
) -> float:
    if token_id not in top:
        raise ReplicaRefusedError(
            f"{url} answers token {token_id} as {name}, which the trainer finds unlikely"
        )
    difference = abs(logprob - top[token_id])
    if not difference <= tolerance:  # NaN must not pass
        raise ReplicaRefusedError(
            f"{url} gives logprob {logprob:.4f} as {name} where the trainer has {top[token_id]:.4f}: "
            "it serves other weights, or SLIPSTREAM_PROBE_TOLERANCE is too small for its number format"
        )
    return difference


def _first_line(answer: httpx2.Response) -> str:
    return f"{answer.status_code} {answer.text.strip()[:300]}"
