"""Frameworks as seen from outside: one that takes a base URL and headers, one that takes a base URL and nothing else."""

from typing import Any

import httpx

from slipstream import Trajectory


class BoringFramework:
    def __init__(self, trajectory: Trajectory) -> None:
        self.base_url, self.headers = trajectory.address.v1, trajectory.headers

    def run(self, question: str) -> str:
        body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": question}]}
        reply = httpx.post(
            f"{self.base_url}/chat/completions", json=body, headers=self.headers, timeout=30, trust_env=False
        )
        text: str = reply.raise_for_status().json()["choices"][0]["message"]["content"]
        return text


class SessionFramework(BoringFramework):
    def __init__(self, trajectory: Trajectory) -> None:
        self.base_url, self.headers = trajectory.base_url, {}
