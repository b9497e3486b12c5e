"""Errors of judging. None of their sentences holds a key, a prompt or an answer.

JudgeError
├── JudgeUnusableError         nothing can be asked with these settings
├── JudgeCallError             the judge did not answer; carries whose fault it is, and whether it may cost something
├── ScorerUnreachableError     nobody answers, or not now: bounded attempts were made
└── ScorerAnswerError          it answered something that is no reward: not asked again
"""

from trainer.errors import TrainerError


class JudgeError(TrainerError):
    """Nothing could be judged."""


class JudgeUnusableError(JudgeError):
    """No judge is named: set SLIPSTREAM_JUDGE_MODEL, such as openai/gpt-4o."""


class JudgeCallError(JudgeError):
    """The judge did not answer."""

    def __init__(self, message: str, *, is_outage: bool = True, is_free: bool = False) -> None:
        """`is_outage`: any other group would have met the same. `is_free`: nobody can have been billed for it."""
        super().__init__(message)
        self.is_outage = is_outage
        self.is_free = is_free


class ScorerUnreachableError(JudgeError):
    """The scorer does not answer: check SLIPSTREAM_SCORER_URL and that it runs."""


class ScorerAnswerError(JudgeError):
    """The scorer answered something that is no reward: {"reward": number, "comment": "…"} is expected."""
