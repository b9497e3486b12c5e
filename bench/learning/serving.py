"""One vLLM for all runs: its start takes longer than a round. Each run's policy has a name of its own, so no adapter of one
run is ever another's, and no cached prefix either.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.gateway.children import started
from slipstream.local.home import Home
from slipstream.local.model import find_model, model_spec
from slipstream.local.ports import free_ports
from slipstream.local.vllm import vllm_spec
from slipstream.settings import StackSettings


@contextmanager
def one_vllm(root: Path, logs: Path) -> Iterator[dict[str, str]]:
    """The embedded stack's vLLM, as it would start it; yields what a stack must be told to use it."""
    home = Home.at(root)
    home.create()
    logs.mkdir(parents=True, exist_ok=True)
    model = find_model(home, None)
    if model_spec(model, os.environ):
        command = [sys.executable, "-m", "slipstream.local.prepare_model", model.name]
        subprocess.run(command, check=True, capture_output=True)
    (port,) = free_ports(1)
    with started(vllm_spec(StackSettings(), model, port, home / "adapters", os.environ), logs):
        yield {"SLIPSTREAM_UPSTREAM_URLS": f"http://127.0.0.1:{port}"}
