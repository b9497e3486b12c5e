"""An adapter of random numbers for a Llama: valid for vLLM, and far from the base model."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

RANK = 8
SIZE = 0.05


def noise_adapter(model: Path, directory: Path, seed: int) -> Path:
    """Write adapter_config.json and adapter_model.safetensors for the Llama in `model`."""
    config = json.loads((model / "config.json").read_text())
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head = hidden // config["num_attention_heads"]
    keys = head * config["num_key_value_heads"]
    shapes = {  # module: (input width, output width)
        "self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (hidden, keys), "self_attn.v_proj": (hidden, keys),
        "self_attn.o_proj": (hidden, hidden), "mlp.gate_proj": (hidden, inner), "mlp.up_proj": (hidden, inner),
        "mlp.down_proj": (inner, hidden),
    }  # fmt: skip
    noise = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in range(config["num_hidden_layers"]):
        for module, (width_in, width_out) in shapes.items():
            prefix = f"base_model.model.model.layers.{layer}.{module}"
            tensors[f"{prefix}.lora_A.weight"] = SIZE * torch.randn(RANK, width_in, generator=noise)
            tensors[f"{prefix}.lora_B.weight"] = SIZE * torch.randn(width_out, RANK, generator=noise)
    directory.mkdir(parents=True)
    save_file(tensors, directory / "adapter_model.safetensors")
    settings = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": str(model), "bias": "none",
        "r": RANK, "lora_alpha": 2 * RANK, "target_modules": [module.split(".")[1] for module in shapes],
    }  # fmt: skip
    (directory / "adapter_config.json").write_text(json.dumps(settings))
    return directory
