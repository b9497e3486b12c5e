"""Our `learn` on the logged groups, with the settings that a worker has: twice, as TRL's side; the second is measured.

python -m bench.train.our_side --model DIR --groups FILE --threads 2 --out FILE
"""

import argparse
import json
from pathlib import Path
from typing import Any

from bench.train import groups
from bench.train.shapes import num_tree_nodes
from bench.train.usage import Usage


def main() -> None:
    options = _options()
    import torch

    torch.set_num_threads(options.threads)
    from trainer.learned import learn
    from trainer.model_cache import ModelCache
    from trainer.parent import Parent

    settings = groups.settings_for(options.model, options.groups.parent)
    exchanges, logprobs = groups.read(options.groups)
    samples, model, usage = groups.samples_of(exchanges, logprobs), ModelCache().get(settings), Usage()
    learn(model, Parent(), samples, settings)
    usage.begin()
    learned = learn(model, Parent(), samples, settings)
    found: dict[str, Any] = usage.end() | {
        "grad_norm": learned.metrics["grad_norm"],
        "predicted_mib": learned.metrics["predicted_memory_mib"],
        "num_rows": learned.metrics["num_rows"],
        "num_forwarded_tokens": learned.metrics["num_packed_tokens"],
        "num_needed_tokens": num_tree_nodes(exchanges),
        "num_completion_tokens": sum(len(one.completion_ids) for one in exchanges),
    }
    options.out.write_text(json.dumps(found), encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    for name in ("groups", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
