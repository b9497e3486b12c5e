"""What the workers of the Python SDKs do with their tasks: one a line on standard input, one answer a line.

Imported by scripts that run beside it with any SDK installed; it knows nothing of this project.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

Task = Callable[[dict[str, Any]], Any]


def serve(made: Sequence[Task], *told_of_errors: str) -> None:
    """`told_of_errors` are the SDK's own attributes of an error, beside what all have."""
    tasks = {task.__name__: task for task in made}
    for line in sys.stdin:
        task = json.loads(line)
        begun_at = time.monotonic()
        try:
            seen = tasks[task["do"]](task)
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what the test is about
            seen = {"error": _failure(error, told_of_errors)}
        seen["seconds"] = time.monotonic() - begun_at
        print(json.dumps(seen), flush=True)  # noqa: T201 - the worker's answer


def _failure(error: Exception, told: Sequence[str]) -> Any:
    return {
        "kinds": [kind.__name__ for kind in type(error).__mro__],
        "status": getattr(error, "status_code", None),
        "message": getattr(error, "message", str(error)),
        **{name: getattr(error, name, None) for name in told},
    }
