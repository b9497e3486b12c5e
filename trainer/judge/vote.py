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
    """What one vote gave each trajectory; `problem` says why it gave nothing."""

    given: Mapping[UUID, Given]
    usage: Usage
    problem: str | None = None


def vote(ask: Ask, prompt: Prompt) -> Vote:
    """At most CALLS_PER_VOTE calls. A judge that did not answer is asked the same again; a bad answer is told what is wrong."""
    usage, problem = Usage(), ""
    messages: list[dict[str, str]] = prompt.messages
    for _ in range(CALLS_PER_VOTE):
        try:
            reply = ask(messages)
        except JudgeCallError as error:
            usage, problem = usage + Usage(num_calls=1), str(error)
            continue
        usage += Usage(1, reply.num_prompt_tokens, reply.num_completion_tokens, reply.cost)
        try:
            given = read_answer(reply.text, prompt.ids)
        except AnswerRefusedError as error:
            problem = _problem(error, reply)
            messages = [*prompt.messages, *_correction(reply, problem, prompt)]
            continue
        return Vote({prompt.ids[id_]: one for id_, one in given.items()}, usage)
    return Vote({}, usage, problem)


def _problem(error: AnswerRefusedError, reply: Reply) -> str:
    is_cut = reply.finish_reason == "length"
    return f"{error} (it was cut off at SLIPSTREAM_JUDGE_MAX_TOKENS)" if is_cut else str(error)


def _correction(reply: Reply, problem: str, prompt: Prompt) -> list[dict[str, str]]:
    return [
        {"role": "assistant", "content": reply.text[-_MAX_REPEATED:] or "(nothing)"},
        {"role": "user", "content": _AGAIN.format(problem=problem, ids=", ".join(prompt.ids))},
    ]
