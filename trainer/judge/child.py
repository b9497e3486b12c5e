"""`python -m trainer.judge.child`: the process that holds LiteLLM. A line of JSON in is one call, a line out its answer.

Invariant: nothing that LiteLLM or a provider says leaves it but the answer's text and its counts; of an error only the
class and the status. It does not outlive the process that started it.
"""

import json
import logging
import os
import queue
import sys
import threading
from typing import Any

MAX_TEXT = 500_000


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    logging.disable(logging.CRITICAL)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    try:
        import litellm
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being imported
        _say(answers, _error(error))
        return
    litellm.suppress_debug_info = True
    litellm.turn_off_message_logging = True
    litellm.telemetry = False
    _say(answers, {"is_ready": True})
    while True:
        told = json.loads(lines.get())
        act = _price if told.pop("act") == "price" else _ask
        try:
            _say(answers, act(told))
        except Exception as error:  # noqa: BLE001 - whatever LiteLLM raises is an answer
            _say(answers, _error(error))


def _ask(told: dict[str, Any]) -> dict[str, Any]:
    """One call: no retries, and what the model does not know (such as a temperature) is left out."""
    import litellm

    reply: Any = litellm.completion(**told, stream=False, num_retries=0, max_retries=0, drop_params=True)
    choice, usage = reply.choices[0], getattr(reply, "usage", None)
    try:
        cost = float(litellm.completion_cost(completion_response=reply, model=told["model"]))
    except Exception:  # noqa: BLE001 - it knows no price
        cost = None
    return {
        "text": str(choice.message.content or "")[-MAX_TEXT:],
        "finish_reason": choice.finish_reason,
        "num_prompt_tokens": int(getattr(usage, "prompt_tokens", 0) or 0),
        "num_completion_tokens": int(getattr(usage, "completion_tokens", 0) or 0),
        "cost": cost,
    }


def _price(told: dict[str, Any]) -> dict[str, Any]:
    """Of the model, or of what it is called behind a gateway: openai/openai/gpt-4o is openai/gpt-4o there."""
    import litellm

    name = str(told.pop("model"))
    while name:
        try:
            return {"cost": float(sum(litellm.cost_per_token(model=name, **told)))}
        except Exception:  # noqa: BLE001 - it knows no price
            name = name.partition("/")[2]
    return {"cost": None}


def _error(error: Exception) -> dict[str, Any]:
    status = getattr(error, "status_code", None)
    return {"error": type(error).__name__, "status": status if isinstance(status, int) else None}


def _say(answers: Any, told: dict[str, Any]) -> None:
    answers.write(json.dumps(told) + "\n")
    answers.flush()


def _read(lines: "queue.SimpleQueue[str]") -> None:
    """The parent holds the other end of our standard input: when it closes, nobody waits for an answer."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
