"""The chat template of the base model: how an answer that was never sampled by it becomes token ids.

Invariant: a prompt's ids begin the ids of the whole, so that loss falls on the answer alone; where a template does not
keep that, the row is refused, never guessed.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from trainer.errors import SurroundingsError

_QUESTION = [{"role": "user", "content": "?"}]  # before an answer whose prompt was recorded as ids
_KEPT = ("role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content")


class TemplateRefusedError(ValueError):
    """The chat template cannot render it so that the prompt begins the whole."""


class Template:
    """Example, of ChatML: an answer "hi" becomes the ids of `hi<|im_end|>`, behind a prompt that ends where it begins."""

    def __init__(self, tokenizer: Any, end_ids: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._end_ids = end_ids

    def answer_ids(self, answer: dict[str, Any]) -> list[int]:
        """Of an assistant's message after a prompt whose ids are known. Raises TemplateRefusedError."""
        return self.rendered(_QUESTION, None, answer)[1]

    def text_ids(self, text: str) -> list[int]:
        """Of a plain completion: no template is between prompt and answer."""
        return self._ended([int(i) for i in self._tokenizer.encode(text, add_special_tokens=False)])

    def rendered(
        self, messages: Sequence[Any], tools: list[Any] | None, answer: dict[str, Any]
    ) -> tuple[list[int], list[int]]:
        """(prompt_ids, answer_ids). Raises TemplateRefusedError."""
        asked = [plain_message(message) for message in messages]
        prompt = self._render(asked, tools, is_prompt=True)
        whole = self._render([*asked, plain_message(answer)], tools, is_prompt=False)
        if whole[: len(prompt)] != prompt or len(whole) == len(prompt):
            raise TemplateRefusedError
        return prompt, self._ended(whole[len(prompt) :])

    def _render(self, messages: list[Any], tools: list[Any] | None, *, is_prompt: bool) -> list[int]:
        try:
            ids = self._tokenizer.apply_chat_template(
                messages, tools=tools, add_generation_prompt=is_prompt, tokenize=True, return_dict=False
            )
        except Exception as error:  # a template is a program of the model's maker: it raises what it likes
            raise TemplateRefusedError from error
        return [int(i) for i in ids]

    def _ended(self, ids: list[int]) -> list[int]:
        """Up to its last end token: what a template writes behind it was never the model's to say."""
        ends = [place for place, token_id in enumerate(ids) if token_id in self._end_ids]
        if ends:
            return ids[: ends[-1] + 1]
        end_id = self._tokenizer.eos_token_id
        return ids if end_id is None else [*ids, int(end_id)]


def plain_message(message: Any) -> dict[str, Any]:
    """As templates read messages: content is a text, arguments of a tool call are an object. Raises TemplateRefusedError."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise TemplateRefusedError
    plain = {name: message[name] for name in _KEPT if message.get(name) is not None}
    plain["content"] = _text_of(message.get("content"))
    if "tool_calls" in plain:
        plain["tool_calls"] = [_plain_call(call) for call in plain["tool_calls"]]
    return plain


def _text_of(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise TemplateRefusedError
    return "".join(map(str, texts))


def _plain_call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError as error:
        raise TemplateRefusedError from error
    return {**call, "function": {**function, "arguments": arguments}}


@lru_cache(maxsize=2)
def template_of(base_model: str) -> Template:
    """Raises SurroundingsError where the base has no tokenizer."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(base_model)
    except (OSError, ValueError, KeyError) as error:
        raise SurroundingsError(
            f"the tokenizer of {base_model} cannot be loaded: demonstrations and teachers' answers need it ({error})"
        ) from error
    return Template(tokenizer, _end_ids(tokenizer, base_model))


def _end_ids(tokenizer: Any, base_model: str) -> frozenset[int]:
    """The tokenizer's own, and what generation stops at (a chat model may have several)."""
    from transformers import GenerationConfig

    try:
        stops = GenerationConfig.from_pretrained(base_model).eos_token_id
    except (OSError, ValueError):
        stops = None
    found = stops if isinstance(stops, list) else [stops]
    return frozenset(int(i) for i in [*found, tokenizer.eos_token_id] if i is not None)
