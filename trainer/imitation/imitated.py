"""From an answer to the tokens that are imitated of it: recorded ones where there are any, else of the template.

Invariant (I9): the same exchange, event and tokenizer make the same tokens, today or when a killed step goes on. Pure.
"""

from typing import Any

from ledger.answers import Answer
from ledger.vocabulary import LeftOut, Reason
from trainer.grpo.samples import Turn
from trainer.imitation.candidates import Candidate
from trainer.imitation.template import Template, TemplateRefusedError

_CHAT = "/v1/chat/completions"
_PLAIN = "/v1/completions"


class LeftOutError(ValueError):
    """It cannot be imitated: `reason` is a Reason or a LeftOut."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def imitated_turn(
    candidate: Candidate, template: Template | None, parent_version: int, max_tokens: int
) -> Turn:
    """`template` may be None where all ids are recorded. Raises LeftOutError. Weighed by an advantage of 1, at temperature 1; nothing was sampled, so 0.0 stands for it."""
    if candidate.reason is not None:
        raise LeftOutError(candidate.reason)
    try:
        prompt_ids, completion_ids = _tokens(candidate, template)
    except TemplateRefusedError:
        raise LeftOutError(LeftOut.TEMPLATE_REFUSED) from None
    if not completion_ids:
        raise LeftOutError(Reason.EMPTY_COMPLETION)
    if len(prompt_ids) + len(completion_ids) > max_tokens:
        raise LeftOutError(Reason.TOO_LONG)
    answer = candidate.answer
    return Turn(
        exchange_id=answer.exchange_id,
        version=parent_version if answer.version is None else answer.version,
        prompt_ids=prompt_ids,
        completion_ids=completion_ids,
        sampling_logprobs=[0.0] * len(completion_ids),
        advantage=1.0,
    )


def _tokens(candidate: Candidate, template: Template | None) -> tuple[list[int], list[int]]:
    answer = candidate.answer
    if not candidate.is_demonstration and answer.version is not None:
        return answer.prompt_ids or [], answer.completion_ids or []
    assert template is not None, "what was not sampled needs one"
    if candidate.is_demonstration:
        message = _demonstrated(candidate.content)
        if answer.prompt_ids:
            return answer.prompt_ids, _answer_ids(answer, message, template)
        return _rendered(answer, message, template)
    return _rendered(answer, _message_of(answer.response), template)


def _answer_ids(answer: Answer, message: dict[str, Any], template: Template) -> list[int]:
    if answer.endpoint == _PLAIN:
        return template.text_ids(str(message.get("content") or ""))
    return template.answer_ids(message)


def _rendered(answer: Answer, message: dict[str, Any], template: Template) -> tuple[list[int], list[int]]:
    if answer.endpoint != _CHAT:
        raise LeftOutError(LeftOut.OTHER_ENDPOINT)
    if not answer.messages:
        raise LeftOutError(Reason.MISSING_TOKEN_IDS)
    return template.rendered(answer.messages, answer.tools, message)


def _demonstrated(content: Any) -> dict[str, Any]:
    """A text, an assistant's message, or a list of one."""
    if isinstance(content, str):
        return {"role": "assistant", "content": content}
    if isinstance(content, list) and len(content) == 1:
        content = content[0]
    if not isinstance(content, dict) or content.get("role", "assistant") != "assistant":
        raise LeftOutError(LeftOut.NOT_AN_ANSWER)
    return _message_of(content)


def _message_of(response: Any) -> dict[str, Any]:
    message = {"role": "assistant", **response} if isinstance(response, dict) else {}
    if not message.get("content") and not message.get("tool_calls"):
        raise LeftOutError(LeftOut.NOT_AN_ANSWER)
    return message
