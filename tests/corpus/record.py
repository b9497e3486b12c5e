"""Makes the corpus again: `python -m tests.corpus.record URL [--server tools|reasoning] [--only PREFIX]`.

Two servers are needed, one after the other. Both: the embedded stack's command line (slipstream/local/vllm.py) on
SmolLM2-135M-Instruct with `--served-model-name SmolLM2-135M-Instruct --max-model-len 1024`, and
  tools:     --enable-auto-tool-choice --tool-call-parser hermes
  reasoning: --reasoning-parser deepseek_r1, on a copy of the model made by tests.corpus.reasoning_model
"""

import argparse
import asyncio

from tests.corpus.asking import ask_all, connected, scenarios, served
from tests.corpus.recording import store
from tests.corpus.scenario import RECORDED_MODEL, Scenario

SCENARIOS_AT_ONCE = 3


async def record(url: str, server: str, prefix: str) -> None:
    async with connected(url) as session:
        version, model = await served(session)
        assert model == RECORDED_MODEL, f"start the server with --served-model-name {RECORDED_MODEL}"
        asked_at_once = asyncio.Semaphore(SCENARIOS_AT_ONCE)

        async def record_one(scenario: Scenario) -> None:
            async with asked_at_once:
                recorded = await ask_all(session, scenario, model)
            store(scenario.name, server, version, recorded)
            print(scenario.name, *(one.status for one in recorded), flush=True)  # noqa: T201 a command

        await asyncio.gather(
            *(record_one(scenario) for scenario in scenarios(server) if scenario.name.startswith(prefix))
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--server", default="tools", choices=["tools", "reasoning"])
    parser.add_argument("--only", default="", metavar="PREFIX")
    given = parser.parse_args()
    asyncio.run(record(given.url, given.server, given.only))


if __name__ == "__main__":
    main()
