"""What the steps learn from: a tiny model, and groups of random ids, the same for the same number."""

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from sqlalchemy import Engine
from transformers import LlamaConfig, LlamaForCausalLM

from ledger.identifiers import new_call_id, new_id
from ledger.policies import ensure_policy
from ledger.recording import record_calls
from ledger.records import Attribution, CallRecord, ChoiceRecord
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import ExchangeStatus, IdentifiedBy

VOCABULARY = 64
BATCH = ((1.0, 0.0, 0.5), (0.0, 1.0))  # the rewards of each group's members
SAME = ((0.5, 0.5, 0.5), (1.0, 1.0))  # nothing can be learned from these
POISON_TOKEN = VOCABULARY + 36  # the model has no such token


def save_tiny_model(directory: Path) -> Path:
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True, eos_token_id=2, pad_token_id=2,
        initializer_range=0.3,
    )  # fmt: skip
    model: Any = LlamaForCausalLM(config)  # type: ignore[no-untyped-call]
    model.save_pretrained(directory)
    return directory


def add_batch(
    engine: Engine,
    base_model: str,
    number: int,
    rewards: tuple[tuple[float, ...], ...] = BATCH,
    *,
    is_poison: bool = False,
) -> None:
    """A batch is visible at once: a worker sees all of its groups, or none."""
    with engine.begin() as connection:
        ensure_policy(connection, name="default", base_model=base_model)
        for position, values in enumerate(rewards):
            call = _call(100 * number + position, len(values), is_poison=is_poison)
            record_calls(connection, [call])
            for index, value in enumerate(values):
                post_reward(connection, "default", RewardPost(str(call.call_id), value=value, choice=index))


def _call(seed: int, num_choices: int, *, is_poison: bool) -> CallRecord:
    chance = random.Random(seed)
    prompt_ids = [1, *(chance.randrange(VOCABULARY) for _ in range(6))]
    return CallRecord(
        call_id=new_call_id(),
        project="default",
        policy="default",
        version=0,
        attribution=Attribution(trajectory_id=new_call_id(), identified_by=IdentifiedBy.NEW),
        request_id="r",
        endpoint="/v1/chat/completions",
        is_streamed=False,
        requested_model="default",
        answered_model="default",
        messages=[{"role": "user", "content": f"task {new_id()}"}],
        request={},
        started_at=datetime.now(UTC),
        status=ExchangeStatus.COMPLETED,
        num_choices=num_choices,
        prompt_ids=prompt_ids,
        temperature=1.0,
        choices=[_choice(chance, index, is_poison=is_poison) for index in range(num_choices)],
    )


def _choice(chance: random.Random, index: int, *, is_poison: bool) -> ChoiceRecord:
    ids = [chance.randrange(VOCABULARY) for _ in range(chance.randint(2, 5))]
    if is_poison:
        ids[-1] = POISON_TOKEN
    return ChoiceRecord(
        index=index,
        response={"role": "assistant", "content": "x"},
        text="x",
        completion_ids=ids,
        sampling_logprobs=[-3.0] * len(ids),
        finish_reason="stop",
    )
