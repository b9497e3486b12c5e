"""A real LangGraph agent knows nothing of us, and its calls belong to the trajectory that is open around it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.conftest import NOWHERE
from tests.fakes.middleman import Middleman, OwnAnswer
from tests.proxy.running import RunningProxy, eventually
from tests.sdk.install import LANGGRAPH, OPENAI_1, install

ROOT = Path(__file__).parents[2]


def run(script: str, beside: Path, url: str, *arguments: str) -> str:
    environment = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    given = {
        "SLIPSTREAM_URL": url,
        "PYTHONPATH": f"{beside}{os.pathsep}{ROOT}",
        "OPENAI_API_KEY": "any",
        "LANGSMITH_TRACING": "false",
    }
    done = subprocess.run(
        [sys.executable, script, *arguments], cwd=ROOT, env={**environment, **given},
        text=True, capture_output=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    install()


ASKS_ITS_TOOL = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{
        "index": 0, "finish_reason": "tool_calls",
        "message": {"role": "assistant", "content": None, "tool_calls": [{
            "id": "c1", "type": "function", "function": {"name": "ask_again", "arguments": '{"question": "Well?"}'},
        }]},
    }],
}  # fmt: skip


def test_a_langgraph_agent_runs_inside_a_trajectory(
    middleman: Middleman, proxy: RunningProxy, name: str
) -> None:
    """Two attempts at once. Each: the agent, its tool's own model, the agent again, and the tool by itself."""
    names = [f"{name}-{n}" for n in range(2)]
    body = json.dumps(ASKS_ITS_TOOL).encode()
    middleman.own_answers = [OwnAnswer(200, body, {"content-type": "application/json"})] * 2
    told = json.loads(run("tests/client/langgraph_agent.py", LANGGRAPH, middleman.url, name, *names))
    for one, attempt in zip(names, told, strict=True):
        assert attempt["text"]
        assert attempt["again"].endswith(f" in {one}")
        assert attempt["posted"] == [True]
        assert attempt["judged"] in {"recorded", "early"}
    calls = [seen for seen in middleman.seen if seen.path == "/v1/chat/completions"]
    assert sorted(call.headers["x-trajectory-id"] for call in calls) == sorted(names * 4)
    for call in calls:
        [other] = {*names} - {call.headers["x-trajectory-id"]}
        assert other.encode() not in call.body
        assert (call.headers["x-group-id"], call.headers["x-group-size"]) == (name, "2")
    sql = "SELECT external_id FROM v1.trajectories WHERE external_id = ANY(:names) AND reward IS NOT NULL"
    rows = eventually(lambda: len(found := proxy.rows(sql, names=names)) == 2 and found)
    assert {row.external_id for row in rows} == {*names}


def test_the_openai_sdk_of_1_x_belongs_to_a_trajectory_too(
    middleman: Middleman, name: str, tmp_path: Path
) -> None:
    script = tmp_path / "program.py"
    script.write_text(f"""
import openai, slipstream
assert openai.__version__.startswith("1."), openai.__version__
outside = openai.OpenAI(api_key="any", base_url="{NOWHERE}/v1")
with slipstream.trajectory("{name}"):
    client = openai.OpenAI()
    client.with_options(timeout=9).chat.completions.create(model="m", messages=[dict(role="user", content="Hi")])
    assert "X-Trajectory-Id" not in outside.with_options(timeout=9).default_headers
assert "X-Trajectory-Id" not in openai.OpenAI(api_key="any").default_headers
""")
    run(str(script), OPENAI_1, middleman.url)
    assert [seen.headers["x-trajectory-id"] for seen in middleman.seen] == [name]
