"""What a script of rewards must end in, by plain loops: no SQL, no locks, no processes.

A place is (call, source): each is judged by one process, whose posts come one after the other; a post may come again at
any later time.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

NUM_PROCESSES = 8
SOURCES = ("user", "program", "reviewer")
Place: TypeAlias = tuple[int, str]


@dataclass
class Script:
    """Posts of each process, in its order, and what stands at the end."""

    num_calls: int
    posts: list[list[Any]] = field(default_factory=lambda: [[] for _ in range(NUM_PROCESSES)])
    latest: dict[Place, float] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)

    def rewards(self) -> dict[int, float]:
        """Of each call's trajectory: the mean over its judges."""
        of: dict[int, list[float]] = {}
        for (call, _), value in self.latest.items():
            of.setdefault(call, []).append(value)
        return {call: sum(values) / len(values) for call, values in of.items()}


def script(num_posts: int, num_calls: int, seed: int) -> Script:
    """A third of the posts change what was said, a tenth come again, at once or much later; some come as lists."""
    chance, made = Random(seed), Script(num_calls)
    places = [(call, source) for call in range(num_calls) for source in SOURCES]
    chance.shuffle(places)
    owned = [places[n::NUM_PROCESSES] for n in range(NUM_PROCESSES)]
    for number in range(num_posts):
        process = number % NUM_PROCESSES
        own = made.posts[process]
        if own and chance.random() < 0.1:
            own.append(chance.choice(own))
            continue
        call, source = chance.choice(owned[process])
        value = chance.choice([-1.0, -0.5, 0.0, 0.25, 1.0])
        made.latest[call, source] = value
        made.ids.add(f"post-{number}")
        own.append({
            "target": f"call-{call}",
            "body": {"reward": value, "source": source, "id": f"post-{number}"},
        })  # fmt: skip
    made.posts[0] = _as_lists(made.posts[0])
    return made


def _as_lists(posts: list[Any]) -> list[Any]:
    """Seven at a time, for POST /v1/rewards."""
    items = [{"target": post["target"], **post["body"]} for post in posts]
    return [items[n : n + 7] for n in range(0, len(items), 7)]
