"""What a sink is: it takes the figures of one published step after another, each line of versions a run of its own.

Invariant: figures, the policy's name and times go out. No text of a call, no setting, no address.
"""

from pathlib import Path
from typing import Any, Protocol

from ledger.figures import FIGURES, Figure
from ledger.policies import Policy


class Sink(Protocol):
    """What the writer asks of a library. Every method may raise, or hang: only its own thread waits for it."""

    name: str
    folder: Path  # where it keeps what it writes, and how far it came

    def write(self, policy: Policy, row: dict[str, Any]) -> None:
        """The figures of one step, handed over to the disk or the service when it returns. `row`: of v1.step_metrics."""

    def close(self) -> None: ...


def run_name(policy: Policy) -> str:
    """As people see it. The same line in another ledger is another run: its id ends otherwise.

    Example: `default-5f0c2a91`, `acme@default-77b1e002`. It names files, so `org/name` becomes `org-name`.
    """
    return f"{policy.line.replace('/', '-')}-{policy.id.hex[-8:]}"


def figures_of(row: dict[str, Any]) -> list[tuple[Figure, float]]:
    """What the step has of the list, in its order."""
    return [(figure, row[figure.name]) for figure in FIGURES if row[figure.name] is not None]


def tag(figure: Figure) -> str:
    """Example: `loss/entropy`. What has the same beginning is shown together."""
    return f"{figure.part}/{figure.name}"
