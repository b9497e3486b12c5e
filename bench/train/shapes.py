"""The logged groups that both sides learn from, in three shapes. Pure: the same seed makes the same groups.

Invariant: what a side is given is a list of exchanges (prompt ids, completion ids, the reward of their trajectory), in the
order group, turn, member: what a ledger holds. Lengths vary, as they do in traffic; tokens are drawn at random.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

MEMBERS = 8
FIRST_ID, VOCABULARY = 20, 49_000  # of SmolLM2's 49,152 ids, without its special ones


@dataclass(frozen=True, slots=True)
class Shape:
    """Example: 512 prompt tokens, 8 members, one turn of 48 to 80 tokens. `user` are tokens between two answers."""

    name: str
    title: str
    num_groups: int
    prompt: tuple[int, int]
    answer: tuple[int, int]
    num_turns: int = 1
    user: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Exchange:
    group: int
    member: int
    turn: int
    prompt_ids: list[int]
    completion_ids: list[int]
    reward: float


SHAPES = (
    Shape("short", "short prompt and answer", num_groups=4, prompt=(16, 32), answer=(16, 48)),
    Shape("prompt", "a prompt of 512 tokens, 8 answers", num_groups=1, prompt=(512, 512), answer=(48, 80)),
    Shape(
        "turns",
        "conversations of 8 turns",
        num_groups=1,
        prompt=(48, 48),
        answer=(8, 24),
        num_turns=8,
        user=(8, 16),
    ),
)


def exchanges_of(shape: Shape, seed: int = 0) -> list[Exchange]:
    rng = random.Random(f"{shape.name}-{seed}")
    found = [one for group in range(shape.num_groups) for one in _group(shape, group, rng)]
    return sorted(found, key=lambda one: (one.group, one.turn, one.member))


def _group(shape: Shape, group: int, rng: random.Random) -> Iterator[Exchange]:
    prompt = _tokens(rng, shape.prompt)
    for member in range(MEMBERS):
        so_far, reward = list(prompt), float(rng.random() < 0.5 if 0 < member < MEMBERS - 1 else bool(member))
        for turn in range(shape.num_turns):
            answer = _tokens(rng, shape.answer)
            yield Exchange(group, member, turn, list(so_far), answer, reward)
            so_far += [*answer, *_tokens(rng, shape.user)]


def _tokens(rng: random.Random, bounds: tuple[int, int]) -> list[int]:
    return [rng.randrange(FIRST_ID, VOCABULARY) for _ in range(rng.randint(*bounds))]


def num_tree_nodes(exchanges: list[Exchange]) -> int:
    """The fewest tokens that have to be forwarded: distinct prefixes of all sequences, counted on their own here.

    The last token of a sequence that nothing continues predicts nothing, yet it is counted: both sides forward it.
    """
    whole = ((*one.prompt_ids, *one.completion_ids) for one in exchanges)
    return len({hash(sequence[:end]) for sequence in whole for end in range(1, len(sequence) + 1)})
