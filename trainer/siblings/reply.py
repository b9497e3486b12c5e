"""What vLLM answered for a sibling, as a choice of the ledger's. Pure. Ids and logprobs are taken as they come (I3)."""

from typing import Any

from ledger.records import ChoiceRecord
from trainer.siblings.errors import SamplingError
from trainer.siblings.request import CHAT


def choice_of(endpoint: str, reply: Any) -> tuple[str | None, list[int], ChoiceRecord]:
    """The model that answered, the prompt's ids and the choice. Raises SamplingError for anything but a reply."""
    try:
        return _chat_choice(reply) if endpoint == CHAT else _completion_choice(reply)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise SamplingError("The model server's answer has no ids, no logprobs, or another shape.") from error


def _chat_choice(reply: Any) -> tuple[str | None, list[int], ChoiceRecord]:
    choice = reply["choices"][0]
    said = {key: value for key, value in choice["message"].items() if value is not None and value != []}
    sampled = [token["logprob"] for token in choice["logprobs"]["content"]]
    message = {"role": "assistant", "content": None, **said}
    return reply["model"], list(reply["prompt_token_ids"]), _choice(choice, message, sampled)


def _completion_choice(reply: Any) -> tuple[str | None, list[int], ChoiceRecord]:
    choice = reply["choices"][0]
    message = {"role": "assistant", "content": choice["text"]}
    sampled = list(choice["logprobs"]["token_logprobs"])
    return reply["model"], list(choice["prompt_token_ids"]), _choice(choice, message, sampled)


def _choice(choice: dict[str, Any], message: dict[str, Any], sampling_logprobs: list[float]) -> ChoiceRecord:
    stop_reason = choice.get("stop_reason")
    return ChoiceRecord(
        index=0,
        response=message,
        text=message["content"] or "",
        completion_ids=list(choice["token_ids"]),
        sampling_logprobs=sampling_logprobs,
        finish_reason=choice.get("finish_reason"),
        stop_reason=None if stop_reason is None else str(stop_reason),
    )
