"""A round's result: the client's count beside the audit, and whether both say that nothing is missing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.faults.audit import Audited
from bench.faults.count import Count
from bench.faults.fate import Fate


@dataclass(frozen=True)
class Result:
    fault: str
    round_: int
    count: Count
    audit: Audited
    settled_seconds: float
    more: dict[str, float] = field(default_factory=dict)
    faults: Sequence[str] = ()  # what else is wrong, in words

    @property
    def is_met(self) -> bool:
        return self.count.is_right and not (self.audit.exit_code or self.audit.num_open or self.faults)

    def row(self) -> dict[str, object]:
        """Flat, for the table and the file."""
        told, count = self.audit.told, self.count
        return {
            "fault": self.fault,
            "round": self.round_,
            "is_met": self.is_met,
            "num_sent": count.num_sent,
            **{f"num_{fate}": count.fates.get(fate, 0) for fate in Fate},
            "num_rows": count.num_rows,
            "client_lost": len(count.lost),
            "client_duplicated": len(count.duplicated),
            "client_unexpected": len(count.unexpected),
            "client_broken": len(count.broken),
            "client_disordered": len(count.disordered),
            **{f"audit_{name}": told[name] for name in ("accepted", "spooled", "committed", "interrupted", "running", "waiting", "rejected", "uncaptured", "lost", "gone", "damaged")},
            "settled_seconds": round(self.settled_seconds, 2),
            **self.more,
            **({"faults": list(self.faults)} if self.faults else {}),
        }  # fmt: skip

    def misses(self) -> list[str]:
        named = {"lost": self.count.lost, "duplicated": self.count.duplicated, "unexpected": self.count.unexpected, "broken": self.count.broken, "disordered": self.count.disordered}  # fmt: skip
        found = [f"{name}: {', '.join(ids[:5])}" for name, ids in named.items() if ids]
        if self.audit.exit_code or self.audit.num_open:
            told = {
                name: self.audit.told[name]
                for name in ("lost", "gone", "rejected", "running", "waiting", "gaps")
            }
            found.append(f"the audit says {told}")
        return [f"{self.fault} {self.round_}: {text}" for text in [*found, *self.faults]]


def figures_of(results: Sequence[Result]) -> dict[str, float]:
    figures: Counter[str] = Counter()
    for result in results:
        kind = result.fault.replace(" ", "_")
        figures[f"{kind}_rounds"] += 1
        figures[f"{kind}_rounds_met"] += result.is_met
        figures["num_calls"] += result.count.num_sent
        figures["client_lost"] += len(result.count.lost)
        figures["client_duplicated"] += len(result.count.duplicated)
        for name, value in result.more.items():
            figures[f"{kind}_{name}"] = max(figures[f"{kind}_{name}"], value)  # type: ignore[assignment]
        figures[f"{kind}_settled_seconds"] = max(figures[f"{kind}_settled_seconds"], result.settled_seconds)  # type: ignore[assignment]
    figures["audit_lost"] = max((result.audit.num_lost for result in results), default=0)
    return dict(figures)
