"""Something that must not be, and how to see it again."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    source: str  # bytes, schema, rows, process
    kind: str  # of the mutation, or of the check
    fault: str
    reproduction: str = ""
    sent: str = ""  # the beginning of what was sent

    def as_row(self) -> dict[str, Any]:
        return asdict(self)


def alike(findings: Iterable[Finding]) -> Counter[str]:
    """How often each fault was found; numbers and ids in it do not tell two faults apart."""
    return Counter(f"{finding.source}, {finding.kind}: {_gist(finding.fault)}" for finding in findings)


def _gist(fault: str) -> str:
    return "".join("#" if character.isdigit() else character for character in fault[:110])
