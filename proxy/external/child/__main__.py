"""`python -m proxy.external.child`: reads one line of settings, imports LiteLLM, serves a port of loopback, says which.

Invariant: nothing that LiteLLM prints or logs leaves this process, and it does not outlive the one that started it.
"""

import json
import logging
import os
import socket
import sys
import threading
from typing import Any


def main() -> None:
    told = json.loads(sys.stdin.readline())
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    logging.disable(logging.CRITICAL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        serve = _prepared(told)
    except Exception as error:  # noqa: BLE001 - the parent tells the operator
        answers.write(
            json.dumps({"error": f"LiteLLM cannot be imported: {type(error).__name__}: {error}"}) + "\n"
        )
        answers.flush()
        sys.exit(1)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    answers.write(json.dumps({"port": listening.getsockname()[1]}) + "\n")
    answers.close()
    serve(listening)


def _prepared(told: dict[str, Any]) -> Any:
    import uvicorn

    from proxy.external.child.application import Application
    from proxy.external.child.calls import Calls

    calls = Calls(told["base_urls"], told["idle_seconds"], told["connect_seconds"])
    options: dict[str, Any] = {
        "lifespan": "off",
        "ws": "none",
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "timeout_keep_alive": 3600,  # the proxy's side closes first
    }
    server = uvicorn.Server(uvicorn.Config(Application(calls, told["token"]), **options))
    return lambda listening: server.run(sockets=[listening])


def _end_with_parent() -> None:
    """The parent holds the other end of our standard input: when it closes, nobody waits for an answer."""
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
