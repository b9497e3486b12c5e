"""What importing the client brings along, and what works without the openai SDK."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {
    "torch",
    "fastapi",
    "sqlalchemy",
    "typer",
    "pydantic",
    "httpx2",
    "openai",
    "ledger",
    "proxy",
    "trainer",
}


def run(*arguments: str, cwd: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # found as a package is that somebody installed
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd, env=environment, text=True, capture_output=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    ["import slipstream", "from slipstream import Client, AsyncClient, trajectory; Client(); AsyncClient()"],
)
def test_importing_it_brings_nothing_heavy(statement: str) -> None:
    done = run("-c", f"{statement}\nimport sys\nprint(*sys.modules)")
    assert done.returncode == 0, done.stderr
    assert HEAVY & set(done.stdout.split()) == set()


def test_without_the_openai_sdk_everything_else_works() -> None:
    code = """
import sys
sys.modules["openai"] = None
from slipstream import Client
with Client("http://127.0.0.1:1", max_retries=0).trajectory("a", group="g") as t:
    assert t.headers == {"X-Trajectory-Id": "a", "X-Group-Id": "g"}
    assert t.base_url == "http://127.0.0.1:1/sessions/a/v1"
    t.reward(1)
assert t.results[0].status == "unreachable"
"""
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert "call_failed" in done.stderr


def test_without_httpx2_the_result_says_what_to_install() -> None:
    code = """
import sys
sys.modules["httpx2"] = None
from slipstream import Client
print(Client().reward("a", 1).error)
"""
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert "pip install 'slipstream[client]'" in done.stdout


def test_what_it_exports_is_there_and_nothing_else_is() -> None:
    import slipstream

    assert {*slipstream.__all__} <= {*dir(slipstream)}
    assert all(getattr(slipstream, name) for name in slipstream.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        slipstream.nothing  # noqa: B018


def test_a_user_of_mypy_strict_sees_its_types(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("""
from slipstream import AsyncClient, Client, Result, trajectory

@trajectory(group="g", reward_of=len)
def agent(question: str) -> str:
    return question

async def later(client: AsyncClient) -> Result:
    return await client.reward("x", True, scope="trajectory", final=False, comment=None)

reveal_type(agent("x"))
reveal_type(Client().rewards([("x", 1)]))
with trajectory("x", on_exception_reward=0.0) as t:
    reveal_type(t.reward(1.0))
Client().reward("x", 1, unknown=2)
""")
    others = tmp_path / "mypy.ini"  # types of other libraries take a minute and are not what is looked at
    others.write_text("[mypy-openai.*,httpx2.*]\nfollow_imports = skip\n")
    done = run(
        "-m", "mypy", "--strict", "--no-incremental", "--config-file", str(others), str(program), cwd=tmp_path
    )
    lines = [line.split(": ", 1)[1] for line in done.stdout.splitlines() if ": " in line]
    assert lines[:3] == [
        'note: Revealed type is "str"',
        'note: Revealed type is "list[slipstream.client.result.Result]"',
        'note: Revealed type is "slipstream.client.result.Result"',
    ]
    assert [line for line in lines[3:] if not line.startswith("note")] == [
        'error: Unexpected keyword argument "unknown" for "reward" of "Client"  [call-arg]'
    ]
