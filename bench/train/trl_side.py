"""TRL's GRPOTrainer on the logged groups: run by the Python of TRL's own environment, so it imports nothing of ours but
`bench.train.usage` (the standard library alone).

    python -m bench.train.trl_side --model DIR --adapter DIR --groups FILE --threads 2 --out FILE [--no-checkpointing]

A `rollout_func` hands GRPOTrainer what was logged instead of generating: same ids, same logprobs. Two steps on the same
groups; the second is measured, so that neither side pays for its first use of a library.
"""

import argparse
import json
import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any

from bench.train.usage import Usage

BATCH = 8  # TRL's default, and one group


def main() -> None:
    options = _options()
    import torch

    torch.set_num_threads(options.threads)
    rows: list[dict[str, Any]] = json.loads(Path(options.groups).read_text(encoding="utf-8"))
    usage = Usage()
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(options, rows, usage, folder)
        trainer.train()
    found = usage.last | {"grad_norm": trainer.state.log_history[0]["grad_norm"]}
    Path(options.out).write_text(json.dumps(found), encoding="utf-8")


def make_trainer(options: argparse.Namespace, rows: list[dict[str, Any]], usage: Usage, folder: str) -> Any:
    import torch
    from datasets import Dataset
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    base = AutoModelForCausalLM.from_pretrained(
        options.model, dtype=torch.float32, attn_implementation="sdpa"
    )
    policy = PeftModel.from_pretrained(base, options.adapter, is_trainable=True)
    args = GRPOConfig(
        output_dir=folder,
        max_steps=2,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=len(rows) // BATCH,
        num_generations=BATCH,
        gradient_checkpointing=not options.no_checkpointing,
        loss_type="cispo",
        epsilon_high=3.0,
        scale_rewards="none",
        beta=0.0,
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        bf16=False,
        use_cpu=True,
        shuffle_dataset=False,
        report_to="none",
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
    )
    # One line per prompt: TRL repeats each BATCH times, and compares the BATCH answers with each other.
    lines = [list(group) for _, group in groupby(rows, key=lambda row: (row["group"], row["turn"]))]
    assert all(len(line) == BATCH for line in lines)
    return GRPOTrainer(
        model=policy,
        processing_class=AutoTokenizer.from_pretrained(options.model),
        args=args,
        train_dataset=Dataset.from_list([{"prompt": str(number)} for number in range(len(lines))]),
        reward_funcs=lambda completions, reward, **_: reward,  # noqa: ARG005
        rollout_func=lambda prompts, _: logged(prompts, lines),
        callbacks=[measured(usage)],
    )


def logged(prompts: list[str], lines: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """What would have been generated: the members of each prompt, one after another."""
    used: dict[str, int] = {}
    found = []
    for prompt in prompts:
        found.append(lines[int(prompt)][used.get(prompt, 0)])
        used[prompt] = used.get(prompt, 0) + 1
    return {
        "prompt_ids": [row["prompt_ids"] for row in found],
        "completion_ids": [row["completion_ids"] for row in found],
        "logprobs": [row["logprobs"] for row in found],
        "reward": [row["reward"] for row in found],
    }


def measured(usage: Usage) -> Any:
    """The second step, from its first token to its last."""
    from transformers import TrainerCallback

    class Measured(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002 - its names
            if state.global_step == 1:
                usage.begin()
            else:
                usage.end()

    return Measured()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("model", "adapter", "groups", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--no-checkpointing", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
