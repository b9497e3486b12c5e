"""LiteLLM's proxy as what people use today: its own environment, its documented start, one worker, no database.

Newest version whose proxy extra the package index can resolve; 1.82.7, 1.82.8 and 1.107.0 were malicious releases.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.gateway.children import environment, started
from bench.gateway.contender import Contender
from bench.gateway.environments import installed
from bench.gateway.requests import MODEL
from bench.gateway.upstream import BASE_MODEL
from slipstream.http import ask_http
from slipstream.local.child import ChildSpec
from slipstream.local.ports import free_ports

VERSION = "1.108.7"
# no key: who has none to check is faster; it must be told that this is meant
_ENVIRONMENT = {
    "PYTHONPATH": "",
    "LITELLM_LOG": "ERROR",
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}
_CONFIG = """
model_list:
  - model_name: {model}
    litellm_params:
      model: openai/{base_model}
      api_base: http://127.0.0.1:{upstream}/v1
      api_key: sk-none
litellm_settings:
  request_timeout: 600
  telemetry: false
"""


def config(upstream: int) -> str:
    return _CONFIG.format(model=MODEL, base_model=BASE_MODEL, upstream=upstream)


@contextmanager
def running_litellm(directory: Path, upstream: int, report: Callable[[str], None]) -> Iterator[Contender]:
    programs = installed("litellm", [f"litellm[proxy]=={VERSION}"], report)
    (port,) = free_ports(1)
    file = directory / "litellm.yaml"
    file.write_text(config(upstream))
    spec = ChildSpec(
        "litellm",
        "Its log says why; it can be left out: --contenders direct,nginx,slipstream",
        lambda: ask_http(f"http://127.0.0.1:{port}/health/liveliness"),
        (str(programs / "litellm"), "--config", str(file), "--host", "127.0.0.1", "--port", str(port),
         "--num_workers", "1"),
        environment(**_ENVIRONMENT),
        start_seconds=180,
    )  # fmt: skip
    with started(spec, directory) as tree:
        yield Contender("litellm", port, tree)
