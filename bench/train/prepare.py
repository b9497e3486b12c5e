"""Made once for both sides: each shape's groups with their sampling logprobs, and the adapter that both begin with.

python -m bench.train.prepare --model DIR --folder DIR
"""

import argparse
import json
from pathlib import Path

from safetensors.torch import save_file

from bench.train import groups
from bench.train.shapes import SHAPES, Exchange, exchanges_of
from trainer.grpo.packing import pack
from trainer.learned import adapter_config
from trainer.model_cache import ModelCache
from trainer.policy_model import PolicyModel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    model = ModelCache().get(groups.settings_for(options.model, options.folder))
    adapter = options.folder / "adapter"
    adapter.mkdir(parents=True, exist_ok=True)
    save_file(model.adapter_state(), adapter / "adapter_model.safetensors")
    config = json.dumps(adapter_config(model, options.model))
    (adapter / "adapter_config.json").write_text(config, encoding="utf-8")
    for shape in SHAPES:
        exchanges = exchanges_of(shape)
        groups.write(options.folder / f"{shape.name}.json", exchanges, sampling_logprobs(model, exchanges))


def sampling_logprobs(model: PolicyModel, exchanges: list[Exchange]) -> list[list[float]]:
    """Of each exchange's completion under the policy as it is."""
    unknown = [[0.0] * len(one.completion_ids) for one in exchanges]
    found: list[list[float]] = [[] for _ in exchanges]
    for row in pack(groups.samples_of(exchanges, unknown), 512):
        logprobs = model.base_logprobs(row).tolist()
        for owner, logprob in zip(row.owner_T.tolist(), logprobs, strict=True):
            found[row.exchange_ids[owner].int].append(logprob)
    model.close_stems()
    return found


if __name__ == "__main__":
    main()
