"""What vLLM produced for one call, gathered from its whole reply or from the events of its stream.

Invariant (I3): ids and logprobs are the numbers that vLLM wrote, in its order; what it did not write stays None.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ledger.records import ChoiceRecord
from proxy.reply.choice import ChoiceCapture, are_ids, index_of, objects

Json = Mapping[str, Any]
_MAX_TOKENS = 1 << 31
_MAX_MODELS, _MAX_NAME = 8, 512


class Capture:
    """All choices of a call, and what stands beside them."""

    def __init__(self, num_choices: int) -> None:
        self.num_choices = num_choices
        self.choices: dict[int, ChoiceCapture] = {}
        self.answered_model: str | None = None
        self._models: list[str] = []
        self.prompt_ids: Sequence[int] | None = None
        self.num_prompt_tokens: int | None = None
        self.error: dict[str, Any] | None = None
        self.is_done = False  # the whole body, or the stream's own last event
        self.has_generated = False  # something that the model produced was seen

    def choice(self, index: int) -> ChoiceCapture:
        return self.choices.get(index) or self.choices.setdefault(index, ChoiceCapture(index))

    def add(self, body: Json) -> None:
        """Takes one event, or the whole reply."""
        self.add_error(body)
        self.add_model(body)
        if are_ids(ids := body.get("prompt_token_ids")):
            self.add_prompt_ids(ids)
        if isinstance(usage := body.get("usage"), dict):
            self.add_num_prompt_tokens(usage.get("prompt_tokens"))
        for choice in objects(body.get("choices")):
            self.has_generated |= self.choice(index_of(choice)).add(choice)

    def add_prompt_ids(self, ids: Sequence[int]) -> None:
        """The first counts: a stream repeats them for each choice."""
        if self.prompt_ids is None:
            self.prompt_ids, self.num_prompt_tokens = ids, len(ids)

    def add_num_prompt_tokens(self, number: Any) -> None:
        if type(number) is int and 0 <= number < _MAX_TOKENS:
            self.num_prompt_tokens = number

    def add_error(self, body: Json) -> None:
        error = body.get("error")
        if isinstance(error, dict):
            self.error = error
        elif error:
            self.error = {"message": str(error)}

    def add_model(self, body: Json) -> None:
        """The name that answered; all of them, if a stream names several: that equals none that was expected."""
        model = body.get("model")
        if isinstance(model, str) and model not in self._models and len(self._models) < _MAX_MODELS:
            self._models.append(model)
            self.answered_model = ", ".join(self._models)[:_MAX_NAME]

    @property
    def is_complete(self) -> bool:
        """Whether everything was produced: the end, or a finish reason for every choice."""
        finished = sum(choice.finish_reason is not None for choice in self.choices.values())
        return self.error is None and (self.is_done or finished >= self.num_choices)

    def records(self) -> list[ChoiceRecord]:
        return [self.choices[index].record() for index in sorted(self.choices)]
