"""Which replica: the one whose cache holds the prefix, unless it is clearly busier than the least loaded one."""

import random
from collections import OrderedDict
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proxy.upstream.choice import Leeway, chosen

NAMES = st.sampled_from([f"http://vllm-{number}:8000" for number in range(12)])
LOADS = st.dictionaries(NAMES, st.integers(0, 200), min_size=1)
LEEWAYS = st.builds(Leeway, st.integers(0, 20), st.floats(1, 4))
AFFINITIES = st.binary(min_size=1, max_size=20)
IDLE = {f"http://vllm-{number}:8000": 0 for number in range(4)}


@given(AFFINITIES, LOADS, LEEWAYS, st.randoms())
def test_the_same_loads_give_the_same_replica_in_any_order_of_the_list(
    affinity: bytes, loads: dict[str, int], leeway: Leeway, shuffled: random.Random
) -> None:
    items = list(loads.items())
    shuffled.shuffle(items)
    assert chosen(affinity, loads, leeway) == chosen(affinity, dict(items), leeway)


@given(st.binary(max_size=20), LOADS, LEEWAYS)
def test_no_choice_is_busier_than_the_leeway_allows(
    affinity: bytes, loads: dict[str, int], leeway: Leeway
) -> None:
    assert loads[chosen(affinity, loads, leeway)] <= leeway.most_allowed(min(loads.values()))


@given(AFFINITIES, st.sets(NAMES, min_size=2), st.data())
def test_a_replica_that_leaves_moves_only_its_own_calls(
    affinity: bytes, names: set[str], data: st.DataObject
) -> None:
    leaving = data.draw(st.sampled_from(sorted(names)))
    before = chosen(affinity, dict.fromkeys(names, 0), Leeway())
    assume(before != leaving)
    assert chosen(affinity, dict.fromkeys(names - {leaving}, 0), Leeway()) == before


@given(LOADS, LEEWAYS)
def test_without_an_affinity_the_least_loaded_answers(loads: dict[str, int], leeway: Leeway) -> None:
    assert loads[chosen(b"", loads, leeway)] == min(loads.values())


def test_affinities_spread_evenly() -> None:
    """4 replicas, 4,000 affinities: 1,000 each; five standard deviations are 137."""
    counts = dict.fromkeys(IDLE, 0)
    for number in range(4000):
        counts[chosen(b"%d" % number, IDLE, Leeway())] += 1
    assert all(863 < count < 1137 for count in counts.values())


@pytest.mark.parametrize(("least", "most"), [(0, 4), (3, 7), (8, 12), (20, 30), (21, 31)])
def test_the_leeway_is_a_few_calls_or_half_as_many_again(least: int, most: int) -> None:
    assert Leeway(4, 1.5).most_allowed(least) == most


@dataclass
class Engine:
    """A replica with room for the prefixes of so many conversations; the one unused longest goes first."""

    num_prefixes: int = 60
    cached: "OrderedDict[bytes, None]" = field(default_factory=OrderedDict)
    num_inflight: int = 0

    def hits(self, affinity: bytes) -> bool:
        is_hit = affinity in self.cached
        self.cached[affinity] = None
        self.cached.move_to_end(affinity)
        if len(self.cached) > self.num_prefixes:
            self.cached.popitem(last=False)
        return is_hit


def simulated(*, is_aware: bool, hot_share: float) -> tuple[float, int]:
    """200 conversations, one of them hot, on 4 engines, 64 calls in flight: (share of hits, largest imbalance)."""
    seeded = random.Random(1)
    engines = {name: Engine() for name in IDLE}
    running: list[Engine] = []
    num_hits = imbalance = 0
    for _ in range(20_000):
        if len(running) >= 64:
            running.pop(seeded.randrange(len(running))).num_inflight -= 1
        hot = seeded.random() < hot_share
        affinity = b"hot" if hot else b"%d" % seeded.randrange(200)
        loads = {name: engine.num_inflight for name, engine in engines.items()}
        engine = engines[chosen(affinity if is_aware else b"", loads, Leeway())]
        num_hits += engine.hits(affinity)
        engine.num_inflight += 1
        running.append(engine)
        counts = [e.num_inflight for e in engines.values()]
        imbalance = max(imbalance, max(counts) - min(counts))
    return num_hits / 20_000, imbalance


@pytest.mark.parametrize("hot_share", [0.0, 0.3, 0.6])
def test_calls_find_their_prefix_more_often_and_the_load_stays_even_enough(hot_share: float) -> None:
    """Each engine holds 60 of 200 prefixes: least-loaded finds 0.30, 0.50, 0.72 of them; we 0.85, 0.84, 0.86."""
    blind, _ = simulated(is_aware=False, hot_share=hot_share)
    aware, imbalance = simulated(is_aware=True, hot_share=hot_share)
    assert aware > max(0.8, blind + 0.1)
    # 64 calls on 4 engines: at most 14 on the least loaded, 14 * 1.5 + 1 on another; calls end at random besides
    assert imbalance <= 16
