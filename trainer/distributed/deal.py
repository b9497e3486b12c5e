"""Which rank computes which rows: the dearest row first, to whoever has least so far.

Invariant: a pure function of the rows, so that all ranks deal alike without a word. Without stems, greedy longest-first is
at most 4/3 of the best split (Graham, "Bounds on Multiprocessing Timing Anomalies", 1969, theorem 2).
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer.grpo.packing import PackedRow
from trainer.grpo.stems import Stem
from trainer.policy_model import PolicyModel

WORTH_PARTING = (
    0.9  # rows of a stem are parted if the longest hand then takes less than this part of the time
)


@dataclass(frozen=True, slots=True)
class Load:
    """What a row costs by itself, and the stems that it hangs on, from the root, with what each costs."""

    cost: float
    stems: Mapping[Hashable, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What a row's price depends on. Example, SmolLM2-135M: 106 million trunk parameters, a head of 49,152 * 576, 30 * 576."""

    num_trunk: int
    num_head: int
    attention_width: int  # layers * hidden size

    @classmethod
    def of(cls, model: PolicyModel) -> "ModelSize":
        base: Any = model.peft.get_base_model()
        config = base.config.get_text_config()
        embedding = base.get_input_embeddings().weight
        head = base.get_output_embeddings().weight
        outside = {
            id(embedding): embedding.numel(),
            id(head): head.numel(),
        }  # one and the same where they are tied
        return cls(
            num_trunk=sum(parameter.numel() for parameter in base.parameters()) - sum(outside.values()),
            num_head=head.numel(),
            attention_width=config.num_hidden_layers * config.hidden_size,
        )

    def cost(self, num_tokens: int, num_seen: int, num_trained: int) -> float:
        """Floating-point operations of a pass, forward and backward: 2 a weight and token each way (frozen weights get no
        gradient), attention of each token to those of its stems and its row, and the head twice at each trained token.
        """
        trunk = 4 * self.num_trunk * num_tokens
        attention = 12 * self.attention_width * num_tokens * num_seen
        return float(trunk + attention + 4 * self.num_head * num_trained)

    def loads(self, rows: Sequence[PackedRow]) -> list[Load]:
        return [
            Load(
                self.cost(len(row.token_ids_L), row.mask_LK.shape[1], len(row.target_T)),
                {stem: self.cost(len(stem.token_ids), stem.stop, 0) for stem in path_of(row)},
            )
            for row in rows
        ]


def path_of(row: PackedRow) -> tuple[Stem, ...]:
    return () if row.stem is None else row.stem.path


def hands_of(loads: Sequence[Load], num_ranks: int) -> list[list[int]]:
    """The rows of each rank, as sorted indices. Example: costs 5, 3, 3, 1 for two ranks: [0, 3], [1, 2].

    Rows on one stem stay together, since it is computed wherever one of them is, and its gradient is then the same to the bit
    as in one process; they are parted where that would take longer.
    """
    together = _greedy(loads, _bundles(loads), num_ranks)
    apart = _greedy(loads, [[index] for index in range(len(loads))], num_ranks)
    is_worth_it = _longest(loads, apart) < WORTH_PARTING * _longest(loads, together)
    return [sorted(hand) for hand in (apart if is_worth_it else together)]


def balance_of(loads: Sequence[Load], hands: Sequence[Sequence[int]]) -> float:
    """How much of the ranks' time is used: 1 where all end together and nothing is computed twice, 1/2 where one of two has
    everything.
    """
    whole, longest = _held(loads, range(len(loads))), _longest(loads, hands)
    return whole / (longest * len(hands)) if longest else 1.0


def _bundles(loads: Sequence[Load]) -> list[list[int]]:
    bundles: dict[Hashable, list[int]] = {}
    for index, load in enumerate(loads):
        bundles.setdefault(next(iter(load.stems), (index,)), []).append(index)
    return list(bundles.values())


def _greedy(loads: Sequence[Load], bundles: Sequence[list[int]], num_ranks: int) -> list[list[int]]:
    """Each bundle, the dearest first, to the rank that then has least."""
    hands: list[list[int]] = [[] for _ in range(num_ranks)]
    costs = [_held(loads, bundle) for bundle in bundles]
    for number in sorted(range(len(bundles)), key=lambda n: (-costs[n], n)):
        held = [_held(loads, [*hand, *bundles[number]]) for hand in hands]
        hands[held.index(min(held))] += bundles[number]
    return hands


def _held(loads: Sequence[Load], hand: Iterable[int]) -> float:
    """Of rows together: each stem once."""
    stems: dict[Hashable, float] = {}
    rows = 0.0
    for index in hand:
        rows += loads[index].cost
        stems |= loads[index].stems
    return rows + sum(stems.values())


def _longest(loads: Sequence[Load], hands: Sequence[Sequence[int]]) -> float:
    return max(_held(loads, hand) for hand in hands)
