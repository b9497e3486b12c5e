"""What a round came to, and the figures of all. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.crashes.account import Account


@dataclass(frozen=True)
class Result:
    """`waits`: seconds from each fault until its version was published. No account: the round did not come to its end."""

    kind: str
    name: str
    num_kills: int
    waits: Sequence[float]
    account: Account | None
    late: list[str] = field(default_factory=list)

    @property
    def is_met(self) -> bool:
        return not list(self.misses())

    @property
    def seconds(self) -> float:
        return max(self.waits, default=0.0)

    @property
    def outcome(self) -> str:
        return "as undisturbed" if self.is_met else "MISSED"

    def misses(self) -> Iterator[str]:
        for fault in (*self.late, *(self.account.faults if self.account else [])):
            yield f"{self.kind}, {self.name}: {fault}"

    def row(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "name": self.name,
            "num_kills": self.num_kills,
            "num_versions": self.account.num_versions if self.account else 0,
            "num_other_bytes": self.account.num_other_bytes if self.account else 0,
            "seconds": round(self.seconds, 1),
            "outcome": self.outcome,
            "is_met": self.is_met,
            "misses": list(self.misses()),
        }


def figures_of(results: Sequence[Result]) -> dict[str, float]:
    accounts = [result.account for result in results if result.account]
    return {
        "num_crashes": len(results),
        "num_met": sum(result.is_met for result in results),
        "num_kills": sum(result.num_kills for result in results),
        "num_versions": sum(account.num_versions for account in accounts),
        "num_other_bytes": sum(account.num_other_bytes for account in accounts),
        "published_seconds_max": max((result.seconds for result in results), default=0.0),
    }
