"""What became of a file's lines, in numbers, and what is wrong with the bad ones, by line."""

from dataclasses import asdict, dataclass, field
from typing import Any

from ledger.imports.lines import Line

_OF_EXCHANGES = (
    "num_new", "num_existing", "num_elsewhere", "num_other_policy", "num_erased", "num_rewards", "num_unasked", "num_over",
)  # fmt: skip


@dataclass(slots=True)
class Report:
    """Counts of exchanges, but for lines and rewards. Example: a file imported twice: num_new 0, num_existing all."""

    num_lines: int = 0
    num_bad: int = 0
    num_new: int = 0
    num_existing: int = 0
    num_elsewhere: int = 0  # another project has a row with this id: nothing was written
    num_other_policy: int = 0  # this project has a row with this id, of another policy: it stays there
    num_erased: int = 0
    num_rewards: int = 0
    num_unasked: int = 0  # of the new ones: answers whose question their file does not hold
    num_over: int = 0  # new, and older than their policy keeps rows: the next run of retention takes them
    bad_lines: list[dict[str, Any]] = field(default_factory=list)

    def tell(self, line: Line, problem: object) -> None:
        self.num_bad += 1
        self.bad_lines.append({"line": line.number, "problem": str(problem)})

    def add(self, other: "Report") -> None:
        """What became of more lines, whose number is counted already."""
        for name in _OF_EXCHANGES:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.num_bad += other.num_bad
        self.bad_lines += other.bad_lines

    def as_json(self) -> dict[str, Any]:
        return {"object": "import", **asdict(self)}
