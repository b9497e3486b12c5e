"""The rule of what counts, by plain loops over plain values: what the views are compared with."""

from dataclasses import dataclass
from fractions import Fraction

REWARD_MIN, REWARD_MAX = -1.0, 2.0


@dataclass(frozen=True)
class Declared:
    smallest: float
    largest: float
    direction: str
    weight: float


BUILT_IN = {
    "reward": Declared(REWARD_MIN, REWARD_MAX, "higher", 1.0),
    "comparison": Declared(0.0, 1.0, "higher", 1.0),
}


@dataclass(frozen=True)
class Said:
    """One event, in the order in which they were written. exchange None: the whole trajectory."""

    number: int
    exchange: int | None
    metric: str
    source: str
    value: float | None
    is_retraction: bool = False
    is_final: bool = True
    comparison: int | None = None

    @property
    def place(self) -> tuple[object, ...]:
        return (self.exchange, self.metric, self.source, self.comparison)


def reasons(events: list[Said], declared: dict[str, Declared]) -> dict[int, str | None]:
    """Why each event does not count; None: it does."""
    rules = BUILT_IN | declared
    newest = {event.place: event.number for event in events}
    found: dict[int, str | None] = {}
    for event in events:
        rule = rules.get(event.metric)
        is_words = event.value is None and event.metric in ("comment", "demonstration")
        if (rule is None or not rule.weight) and not is_words:
            found[event.number] = "other_metric"
        elif newest[event.place] != event.number:
            found[event.number] = "superseded"
        elif event.is_retraction:
            found[event.number] = "retraction"
        elif event.value is None:
            found[event.number] = "no_value"
        elif not rule.smallest <= event.value <= rule.largest:
            found[event.number] = "out_of_range"
        else:
            found[event.number] = None
    if any(found[event.number] is None and event.source != "judge" for event in events):
        judged = [event.number for event in events if event.source == "judge" and found[event.number] is None]
        found |= dict.fromkeys(judged, "outranked")
    return found


def score(event: Said, declared: dict[str, Declared]) -> Fraction:
    """From the metric's range onto the policy's, mirrored where lower is better."""
    rule = (BUILT_IN | declared)[event.metric]
    low, high, value = Fraction(rule.smallest), Fraction(rule.largest), Fraction(event.value or 0.0)
    share = (high - value if rule.direction == "lower" else value - low) / (high - low)
    return Fraction(REWARD_MIN) + share * (Fraction(REWARD_MAX) - Fraction(REWARD_MIN))


def combined(events: list[Said], declared: dict[str, Declared], combination: str) -> float | None:
    """Of the events that count, in their order."""
    if not events:
        return None
    scores = [score(event, declared) for event in events]
    weights = [Fraction((BUILT_IN | declared)[event.metric].weight) for event in events]
    total = sum(weight * one for weight, one in zip(weights, scores, strict=True))
    rules = {"sum": total, "min": min(scores), "last": scores[-1], "mean": total / sum(weights)}
    return float(rules[combination])
