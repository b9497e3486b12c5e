"""A LangGraph agent with a tool, as its documentation writes it; run as a script beside the packages of tests/sdk.

It says which trajectory it opened: the names of two attempts are its arguments, and they run at once.
"""

import asyncio
import json
import sys
from typing import Any

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent

from slipstream import AsyncClient, current_trajectory, trajectory


@tool
def ask_again(question: str) -> str:
    """Asks somebody else."""
    now = current_trajectory()
    return ChatOpenAI(model="gpt-4o", max_retries=0).invoke(question).text + f" in {now and now.id}"


async def attempt(name: str, group: str) -> dict[str, Any]:
    async with trajectory(name, group=group, group_size=2) as t:
        agent = create_react_agent(ChatOpenAI(model="gpt-4o", max_retries=0), [ask_again])
        ended = await agent.ainvoke({"messages": [("user", f"Hi from {name}")]})
        again = await ask_again.ainvoke({"question": f"And {name}?"})
        t.reward(0.5)
    last = ended["messages"][-1]
    async with AsyncClient() as client:
        judged = await client.reward(last, True)
    return {"text": last.text, "again": again, "posted": [r.ok for r in t.results], "judged": judged.status}


async def main(group: str, names: list[str]) -> None:
    print(json.dumps(await asyncio.gather(*(attempt(name, group) for name in names))))  # noqa: T201 - its answer


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
