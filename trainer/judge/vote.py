"""One vote: the group shown once, the answer checked, and one more call where it cannot be used."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from trainer.judge.answer import AnswerRefusedError, Given, read_answer
from trainer.judge.errors import JudgeCallError
from trainer.judge.model import Reply
from trainer.judge.prompt import Prompt
from trainer.judge.transitions import Usage

CALLS_PER_VOTE = 2
_MAX_REPEATED = 8_000  # characters of an answer that the judge is shown again
_AGAIN = """\
That answer cannot be used: {problem}.
Answer once more, with JSON alone: {{"scores": [{{"id": "…", "explanation": "…", "score": 0.0}}]}}, with exactly these ids, each once: {ids}."""

Ask = Callable[[Sequence[dict[str, str]]], Reply]


@dataclass(frozen=True, slots=True)
class Vote:
    """What one vote gave each trajectory; `problem` says why it gave nothing, `is_outage` that nobody answered."""

    given: Mapping[UUID, Given]
    usage: Usage
    problem: str | None = None
    is_outage: bool = False


def vote(ask: Ask, prompt: Prompt, call: Usage) -> Vote:
    """At most CALLS_PER_VOTE calls. A judge that did not answer is asked the same again; a bad answer is told what is wrong.

    `call`: what one may use. A call without an answer counts as that: nobody knows what it did cost.
    """
    usage, problem, is_outage = Usage(), "", False
    messages: list[dict[str, str]] = prompt.messages
    for _ in range(CALLS_PER_VOTE):
        try:
            reply = ask(messages)
        except JudgeCallError as error:
            usage += Usage(num_calls=1) if error.is_free else call
            problem, is_outage = str(error), error.is_outage
            continue
        usage += Usage(1, reply.num_prompt_tokens, reply.num_completion_tokens, reply.cost)
        try:
            given = read_answer(reply.text, prompt.ids)
        except AnswerRefusedError as error:
            problem, is_outage = _problem(error, reply), False
            messages = [*prompt.messages, *_correction(reply, problem, prompt)]
            continue
        return Vote({prompt.ids[id_]: one for id_, one in given.items()}, usage)
    return Vote({}, usage, problem, is_outage)


def _problem(error: AnswerRefusedError, reply: Reply) -> str:
    is_cut = reply.finish_reason == "length"
    return f"{error} (it was cut off at SLIPSTREAM_JUDGE_MAX_TOKENS)" if is_cut else str(error)


def _correction(reply: Reply, problem: str, prompt: Prompt) -> list[dict[str, str]]:
    return [
        {"role": "assistant", "content": reply.text[-_MAX_REPEATED:] or "(nothing)"},
        {"role": "user", "content": _AGAIN.format(problem=problem, ids=", ".join(prompt.ids))},
    ]
