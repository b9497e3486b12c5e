"""A tiny Llama with random weights, made on the spot: real transformers and peft code, milliseconds a step."""

import random
from pathlib import Path
from uuid import UUID

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from trainer.grpo.samples import Sample, Turn, merge_turns

VOCABULARY = 64


def save_tiny_model(directory: Path, seed: int = 7) -> Path:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
            tie_word_embeddings=True,
            eos_token_id=2,
            pad_token_id=2,
            initializer_range=0.3,
        )
        LlamaForCausalLM(config).save_pretrained(directory)
    return directory


def turn(
    number: int,
    prompt_ids: list[int],
    completion_ids: list[int],
    advantage: float = 1.0,
    temperature: float = 1.0,
    sampling_logprob: float = -2.0,
    version: int = 0,
) -> Turn:
    return Turn(
        exchange_id=UUID(int=number),
        version=version,
        prompt_ids=prompt_ids,
        completion_ids=completion_ids,
        sampling_logprobs=[sampling_logprob] * len(completion_ids),
        temperature=temperature,
        advantage=advantage,
    )


def random_samples(seed: int, num_groups: int = 2, num_members: int = 3) -> list[Sample]:
    """Groups of two-turn trajectories with common prompts, all different lengths, temperatures and advantages."""
    rng = random.Random(seed)
    tokens = lambda low, high: [rng.randrange(VOCABULARY) for _ in range(rng.randint(low, high))]  # noqa: E731
    samples: list[Sample] = []
    for group in range(num_groups):
        prompt = tokens(2, 9)
        for member in range(num_members):
            number = 100 * group + 10 * member
            weight, temperature = rng.uniform(-1, 1), rng.choice([0.6, 1.0, 1.3])
            logprob = rng.uniform(-6, -2)
            first = turn(number, prompt, tokens(1, 6), weight, temperature, logprob)
            longer = [*prompt, *first.completion_ids, *tokens(1, 4)]
            second = turn(number + 1, longer, tokens(1, 6), weight, temperature, logprob)
            samples += merge_turns([first, second])
    return samples
