"""The real vLLM is asked again for the corpus: a red line means that vLLM changed, and that it is time to look.

Texts and ids may differ from machine to machine, shapes may not. What needs a reasoning parser needs a server of its
own and is only recorded by hand (tests/corpus/record.py).
"""

import asyncio

import pytest

from tests.corpus.asking import ask_all, connected, scenarios, served
from tests.corpus.recording import Recorded, load
from tests.corpus.scenario import TOOLS_SERVER
from tests.corpus.shape import difference, reply_shape

NAMES = [scenario.name for scenario in scenarios(TOOLS_SERVER)]
ASKED_AT_ONCE = 8
WITH_ADAPTERS = "models"  # other tests load some, and each is one more kind of entry


@pytest.fixture(scope="session")
def asked_again(real_vllm_url: str) -> dict[str, list[Recorded]]:
    """All scenarios in one go: batched, they take no longer than the longest few of them."""

    async def ask_everything() -> dict[str, list[Recorded]]:
        at_once = asyncio.Semaphore(ASKED_AT_ONCE)
        async with connected(real_vllm_url) as session:
            _, model = await served(session)

            async def ask_one(name: str) -> list[Recorded]:
                async with at_once:
                    return await ask_all(session, scenarios_by_name[name], model)

            scenarios_by_name = {scenario.name: scenario for scenario in scenarios(TOOLS_SERVER)}
            return dict(zip(NAMES, await asyncio.gather(*map(ask_one, NAMES)), strict=True))

    return asyncio.run(ask_everything())


@pytest.mark.parametrize("name", [name for name in NAMES if name != WITH_ADAPTERS])
def test_vllm_answers_in_the_recorded_shapes(asked_again: dict[str, list[Recorded]], name: str) -> None:
    for found, recorded in zip(asked_again[name], load(name), strict=True):
        assert not difference(reply_shape(recorded), reply_shape(found)), recorded.asked
