"""Errors of judging. None of their sentences holds a key, a prompt or an answer.

JudgeError
├── JudgeUnusableError         nothing can be asked with these settings
├── JudgeCallError             the judge did not answer; carries whether another attempt may help
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


class ScorerUnreachableError(JudgeError):
    """The scorer does not answer: check SLIPSTREAM_SCORER_URL and that it runs."""


class ScorerAnswerError(JudgeError):
    """The scorer answered something that is no reward: {"reward": number, "comment": "…"} is expected."""
