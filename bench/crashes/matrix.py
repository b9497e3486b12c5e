"""The matrix: every crash that a step must survive, by name."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench.crashes import kills, messages, rivals
from bench.crashes.account import Expected
from bench.crashes.points import (
    BEFORE_LIVE,
    BEFORE_SAVE,
    CALLS,
    COMMITS,
    MIDDLE,
    NOTHING_LEARNED,
    SET_ASIDE,
    Act,
)
from bench.crashes.round import Round

_SILENCE: dict[str, Any] = {"silence_seconds": 1.0}  # the worker may tick by itself


@dataclass(frozen=True)
class Case:
    """`num_steps`: in how many steps, one after another, it happens; `settings`: what is other than usual."""

    kind: str
    name: str
    play: Callable[[Round], Expected]
    settings: dict[str, Any] = field(default_factory=dict)


def cases(num_steps: int) -> Iterator[Case]:
    yield from _kills(num_steps)
    yield from _messages()
    yield from _rivals(num_steps)
    yield from _batches()


def _kills(num_steps: int) -> Iterator[Case]:
    for point in (*COMMITS, *CALLS):
        yield Case("kill", point.name, partial(kills.kill_at, point=point, num_steps=num_steps))
    for point in SET_ASIDE:
        yield Case("kill", point.name, partial(kills.kill_while_set_aside, point=point, num_steps=num_steps))
    for point in NOTHING_LEARNED:
        yield Case("kill", point.name, partial(kills.kill_while_skipped, point=point, num_steps=num_steps))


def _messages() -> Iterator[Case]:
    yield Case("message", "one tick five times at once, three workers", messages.five_at_once)
    again = "delivered again: visibility time-out shorter than the step"
    yield Case("message", again, messages.again_after_visibility_timeout)
    yield Case("valkey", "killed and started again in mid-step", messages.valkey_restarted)
    yield Case("valkey", "FLUSHALL in mid-step", messages.valkey_flushed)
    yield Case("valkey", "every connection cut in mid-step", messages.connections_cut)
    yield Case("valkey", "hangs while a step ends and another begins", messages.valkey_hangs, _SILENCE)
    yield Case("valkey", "away while a step ends and another begins", messages.valkey_away, _SILENCE)


def _rivals(num_steps: int) -> Iterator[Case]:
    yield Case("workers", "two on one policy", partial(rivals.two_workers, num_steps=num_steps))
    for point in (MIDDLE, BEFORE_SAVE, BEFORE_LIVE):
        play = partial(rivals.stopped_longer_than_its_lease, point=point)
        yield Case("workers", f"SIGSTOP longer than its lease: {point.name}", play)
    restarted = partial(rivals.postgres_restarted, num_steps=num_steps)
    yield Case("postgres", "killed and started again in mid-step", restarted)
    for act, way in ((Act.AHEAD, "ahead"), (Act.BEHIND, "back")):
        yield Case("clock", f"jumps a day {way}, beside a right one", partial(rivals.clock_jumps, act=act))
        alone = partial(rivals.clock_jumps_alone, act=act)
        yield Case("clock", f"jumps a day {way}, nobody else works", alone, _SILENCE)


def _batches() -> Iterator[Case]:
    yield Case("batch", "poison: the model cannot take it", kills.poison)
    yield Case("batch", "poison: it kills whoever computes it", kills.deadly_poison)
    yield Case("batch", "nothing trainable", kills.nothing_trainable)
