"""The versions of a policy as a program can follow them: which step ended, and which version answers now."""

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from openai import APIStatusError, AsyncOpenAI

from examples.demo.display import Display
from examples.demo.stack import StackFailedError

STEP_SECONDS = 300.0  # a step that takes longer is a failure, not patience
SWITCH_SECONDS = 60.0
FINISHED = ("published", "skipped", "failed")
STATES = {
    "claimed": "builds samples from the claimed groups",
    "built": "computes gradients",
    "updated": "saves the adapter",
    "saved": "loads the adapter into vLLM and probes it",
}


class Versions:
    """`live` is the newest version that a step published."""

    def __init__(self, client: AsyncOpenAI, policy: str, display: Display, log: Path) -> None:
        self._client, self._policy, self._display, self._log = client, policy, display, log
        self._seen_steps: set[str] = set()
        self.live = 0

    async def next_is_published(self) -> bool:
        """Wait for the step that the rewards so far make. False if it was skipped for want of a signal."""
        deadline = time.monotonic() + STEP_SECONDS
        while time.monotonic() < deadline:
            steps = (await self._client.get("/steps", cast_to=dict))["data"]
            ended = [
                each for each in steps if each["state"] in FINISHED and each["id"] not in self._seen_steps
            ]
            if ended:
                return self._ends_with(ended[0])
            state = steps[0]["state"] if steps and steps[0]["state"] not in FINISHED else ""
            self._display.say(f"training version {self.live + 1}", STATES.get(state, "waits for its groups"))
            await asyncio.sleep(0.5)
        raise StackFailedError(f"no step ended within {STEP_SECONDS:.0f} s; see {self._log}")

    async def wait_until_served(self) -> None:
        """A proxy follows the ledger within a moment; until then the version before answers."""
        deadline = time.monotonic() + SWITCH_SECONDS
        while time.monotonic() < deadline:
            with suppress(APIStatusError):  # 503: a replica is being told
                ready = await self._client.get(str(self._client.base_url.join("/ready")), cast_to=dict)
                if ready["live"].get(self._policy) == self.live:
                    return
            await asyncio.sleep(0.2)
        raise StackFailedError(f"version {self.live} was not served within {SWITCH_SECONDS:.0f} s")

    def _ends_with(self, step: dict[str, Any]) -> bool:
        self._seen_steps.add(step["id"])
        if step["state"] == "failed":
            raise StackFailedError(f"the step of version {step['version']} failed: {step['reason']}")
        if step["state"] == "published":
            self.live = step["version"]
        return bool(step["state"] == "published")
