"""The judge as a run talks to it: what is asked of LiteLLM, and what is made of its answers.

Invariant: no word of a provider's error is passed on, for it may hold a key or what a user said.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainer.judge.errors import JudgeCallError, JudgeUnusableError
from trainer.judge.process import START_SECONDS, LitellmProcess
from trainer.judge.settings import JudgeSettings

GRACE_SECONDS = 5.0  # for what LiteLLM does beside its call
_KEYLESS = "none"  # OpenAI's client wants some key, also for a server that asks for none
_HINTS = {
    400: "does LiteLLM know SLIPSTREAM_JUDGE_MODEL, and is SLIPSTREAM_JUDGE_MAX_CHARACTERS within its context?",
    401: "the key was refused: SLIPSTREAM_JUDGE_API_KEY",
    403: "the key may not use this model",
    404: "there is no such model: SLIPSTREAM_JUDGE_MODEL, SLIPSTREAM_JUDGE_BASE_URL",
    429: "too many calls, or the account is empty",
}
_OF_THE_PROMPT = (400, 413, 422)  # another group's may be accepted
_NOT_REFUSED = 408  # as LiteLLM says that a provider was too slow: it may have answered, and bill that
_UNAVAILABLE = 503


@dataclass(frozen=True, slots=True)
class Reply:
    """`cost`: US dollars; None = LiteLLM knows no price."""

    text: str
    finish_reason: str | None
    num_prompt_tokens: int
    num_completion_tokens: int
    cost: float | None


class JudgeModel:
    def __init__(self, settings: JudgeSettings, process: LitellmProcess) -> None:
        """Raises JudgeUnusableError if no model is named."""
        if not settings.model:
            raise JudgeUnusableError
        self.name = settings.model
        self._settings = settings
        self._process = process

    def price(self, num_prompt_tokens: int, num_completion_tokens: int) -> float | None:
        """US dollars by LiteLLM's own list; None where it knows none."""
        numbers = {"prompt_tokens": num_prompt_tokens, "completion_tokens": num_completion_tokens}
        told = self._process.exchanged({"act": "price", "model": self.name, **numbers}, START_SECONDS)
        return told.get("cost")

    def ask(self, messages: Sequence[dict[str, str]]) -> Reply:
        """Raises JudgeCallError."""
        told = self._process.exchanged(self._call(messages), self._settings.timeout_seconds + GRACE_SECONDS)
        if "error" in told:
            status = told["status"]
            hint = f": {_HINTS[status]}" if status in _HINTS else ""
            raise JudgeCallError(
                f"the judge's provider answered {status or 'nothing'} ({told['error']}){hint}",
                is_outage=status not in _OF_THE_PROMPT,
                is_free=_is_refusal(status),
            )
        return Reply(**told)

    def _call(self, messages: Sequence[dict[str, str]]) -> dict[str, Any]:
        settings = self._settings
        call: dict[str, Any] = {
            "act": "ask",
            "model": self.name,
            "messages": list(messages),
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            "timeout": settings.timeout_seconds,
        }
        key = settings.api_key and settings.api_key.get_secret_value()
        if settings.base_url:  # it may be this very proxy: what is judged with is never trained on
            call |= {"api_base": settings.base_url, "extra_headers": {"X-Turn-Type": "side"}, "store": False}
            key = key or _KEYLESS
        return call | ({"api_key": key} if key else {})


def _is_refusal(status: int | None) -> bool:
    return status == _UNAVAILABLE or (status is not None and 400 <= status < 500 and status != _NOT_REFUSED)  # noqa: PLR2004 - HTTP's
