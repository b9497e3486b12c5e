"""The process that holds LiteLLM, asked over its standard input, a line a call.

A process, because LiteLLM's retries, threads and exceptions are no way to stop it (B021): killing it is. It prints and
logs what it likes, and must not see our environment. It is started by the first call, and again after it was killed.
"""

import json
import os
import selectors
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

from trainer.judge.environment import child_environment
from trainer.judge.errors import JudgeCallError, JudgeUnusableError

START_SECONDS = 120.0
_ROOT = Path(__file__).parents[2]


class LitellmProcess:
    """A context manager; one call at a time. `stop` may be called from another thread."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.stop()
        self.rest()

    def rest(self) -> None:
        """Its 200 MB are given back; the next call starts it again."""
        self._kill()

    def stop(self) -> None:
        """A call that runs ends with JudgeCallError; whoever waits for it closes the pipes."""
        self._is_stopped = True
        if (process := self._process) is not None:
            process.kill()

    def exchanged(self, told: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The answer to one call. Raises JudgeCallError at the deadline, and JudgeUnusableError without LiteLLM."""
        if self._is_stopped:
            raise JudgeCallError("the judge was stopped", is_free=True)
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(told).encode() + b"\n")
            process.stdin.flush()
        except OSError as error:
            self._kill()
            raise JudgeCallError("the judge's process ended") from error
        return self._answer(process, seconds)

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._kill()
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", "trainer.judge.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # LiteLLM's own words may hold keys
            env=child_environment(os.environ, _ROOT),
            start_new_session=True,  # Ctrl-C is ours
        )
        said = self._answer(process, START_SECONDS)
        if "is_ready" not in said:
            self._kill()
            raise JudgeUnusableError(
                f"LiteLLM cannot be imported ({said.get('error')}): pip install 'slipstream[trainer]'."
            )
        return process

    def _answer(self, process: "subprocess.Popen[bytes]", seconds: float) -> dict[str, Any]:
        """One line, by the deadline, however slowly it comes; else the process is killed."""
        assert process.stdout is not None
        data, deadline = bytearray(), monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not data.endswith(b"\n"):
                if not selector.select(max(deadline - monotonic(), 0)):
                    self._kill()
                    raise JudgeCallError(f"the judge did not answer within {seconds:g} s")
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    self._kill()
                    raise JudgeCallError("the judge's process ended")
                data += chunk
        answer: dict[str, Any] = json.loads(data)
        return answer

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
