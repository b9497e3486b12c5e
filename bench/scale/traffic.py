"""The step that all learn from: groups of answers of different lengths to prompts of different lengths. Pure.

The tokens are drawn at random, and the sampling logprobs are stated, not sampled: neither changes what a step costs. The
same seed makes the same step.
"""

import random
from uuid import UUID

from trainer.grpo.samples import Sample, Turn, merge_turns

NUM_MEMBERS = 4
VOCABULARY = 49_000  # of SmolLM2's 49,152 ids, without its special ones


def samples_of(num_groups: int, seed: int) -> list[Sample]:
    rng = random.Random(seed)
    samples: list[Sample] = []
    for group in range(num_groups):
        prompt = _tokens(rng, 32, 96)
        for member in range(NUM_MEMBERS):
            answer = _tokens(rng, 24, 72)
            samples += merge_turns(
                [
                    Turn(
                        exchange_id=UUID(int=group * NUM_MEMBERS + member),
                        version=0,
                        prompt_ids=prompt,
                        completion_ids=answer,
                        sampling_logprobs=[-10.0] * len(answer),
                        advantage=rng.uniform(-1, 1),
                    )
                ]
            )
    return samples


def _tokens(rng: random.Random, least: int, most: int) -> list[int]:
    return [rng.randrange(20, VOCABULARY) for _ in range(rng.randint(least, most))]
