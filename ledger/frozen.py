"""`dataclass` whose `frozen` is held by the type checker alone: at run time it would triple what making one costs.

For what is made several times a call. Equality and hash are those of a frozen one.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool, slots: bool) -> Any:
        return dataclasses.dataclass(slots=slots, unsafe_hash=frozen)
