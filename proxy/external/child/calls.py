"""What is asked of LiteLLM. It keeps the operator's keys in mind; we tell it where, how long, and not to try twice."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import litellm
from litellm.anthropic_interface.messages import acreate as anthropic_messages

from proxy.external.child.failures import BrokenOffError

_NAMED_EVENTS = "/v1/responses"
litellm.suppress_debug_info = True
litellm.drop_params = False  # what a provider cannot do is refused, not left out in silence
litellm.turn_off_message_logging = True
litellm.num_retries = 0


@dataclass(frozen=True, slots=True)
class Asked:
    path: str
    provider: str
    name: str
    call_id: str
    body: Mapping[str, Any]

    @classmethod
    def of(cls, path: str, told: Mapping[str, str], body: Mapping[str, Any]) -> "Asked":
        return cls(path, told["provider"], told["name"], told["call_id"], body)

    @property
    def is_streamed(self) -> bool:
        return bool(self.body.get("stream")) and self.path != "/v1/embeddings"

    @property
    def names_events(self) -> bool:
        return self.path == _NAMED_EVENTS


class Calls:
    def __init__(self, base_urls: Mapping[str, str], idle_seconds: float, connect_seconds: float) -> None:
        self._base_urls = base_urls
        self._timeout = httpx.Timeout(idle_seconds, connect=connect_seconds)
        self._idle_seconds = idle_seconds

    async def ask(self, asked: Asked) -> Any:
        """The whole answer, or an iterator over the events of a stream. Raises whatever LiteLLM raises."""
        how: dict[str, Any] = {
            "model": asked.name,
            "custom_llm_provider": asked.provider,
            "num_retries": 0,
            "max_retries": 0,
            "timeout": self._timeout if asked.path == "/v1/chat/completions" else self._idle_seconds,
        }
        if base_url := self._base_urls.get(asked.provider):
            how["api_base"] = base_url
        answered = await _function(asked.path)(**{**asked.body, **how})
        return _checked(answered) if asked.is_streamed else answered


def _function(path: str) -> Callable[..., Awaitable[Any]]:
    functions: dict[str, Callable[..., Awaitable[Any]]] = {
        "/v1/chat/completions": litellm.acompletion,
        "/v1/completions": litellm.atext_completion,
        "/v1/responses": litellm.aresponses,
        "/v1/messages": anthropic_messages,
        "/v1/embeddings": litellm.aembedding,
    }
    return functions[path]


async def _checked(stream: Any) -> AsyncIterator[Any]:
    """LiteLLM ends a stream that was cut off with a finish reason of its own making: that is told as what it is."""
    async for item in stream:
        choices = getattr(item, "choices", None) or ()
        is_end = any(getattr(choice, "finish_reason", None) for choice in choices)
        if is_end and getattr(stream, "received_finish_reason", is_end) is None:
            raise BrokenOffError
        yield item
