"""POST /v1/completions: trainable, also for several prompts at once, unless the prompt is echoed into the answer."""

from typing import Any

from proxy.errors import InvalidRequestError
from proxy.settings import ProxySettings
from proxy.surface import limits
from proxy.surface.chat import asked_of, new_choices_reply
from proxy.surface.document import Document
from proxy.surface.endpoint import Endpoint
from proxy.surface.fields import dropped_fields
from proxy.surface.request import ModelRequest, checked_model

PATH = "/v1/completions"


def understand_completion(document: Document, settings: ProxySettings) -> ModelRequest:
    """Raises InvalidRequestError."""
    values = document.values
    checked_model(values)
    num_prompts = _num_prompts(values)
    limits.checked_logprobs(values, "logprobs", settings)
    limits.check_stop(values, "stop", settings)
    return ModelRequest(
        document,
        is_streamed=document.flag("stream"),
        asked=asked_of(document, logprobs=values.get("logprobs") is not None),
        num_choices=num_prompts * limits.checked_choices(values, settings, num_prompts),
        num_prompts=num_prompts,
        additions=_capture_fields(values),
        can_teach=not values.get("echo"),
        dropped=dropped_fields(PATH, values),
        max_tokens=limits.checked_max_tokens(values, "max_tokens", settings=settings),
    )


def _num_prompts(values: dict[str, Any]) -> int:
    """A string or a list of ids is one prompt; a list of those is as many."""
    prompt = values.get("prompt")
    if isinstance(prompt, str):
        return 1
    if not isinstance(prompt, list) or not prompt:
        raise InvalidRequestError(
            "'prompt' must be a string, a list of token ids, or a list of those.", param="prompt"
        )
    return len(prompt) if isinstance(prompt[0], str | list) else 1


def _capture_fields(values: dict[str, Any]) -> dict[str, str]:
    """With `echo`, asking for ids would change the text that the client gets: such a call is served as it is."""
    if values.get("echo"):
        return {}
    ids = {"return_token_ids": "true"}
    return ids if values.get("logprobs") is not None else {**ids, "logprobs": "0"}


COMPLETIONS = Endpoint(PATH, understand_completion, new_choices_reply)
