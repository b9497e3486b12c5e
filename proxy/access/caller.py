"""Who calls: whose project, by which key, with which rights."""

from dataclasses import dataclass
from typing import Self
from uuid import UUID

from ledger.vocabulary import DEFAULT_PROJECT, Scope
from proxy.errors import PermissionDeniedError


@dataclass(frozen=True, slots=True)
class Caller:
    """Everything that a caller sees and makes stays in `project`. `key_id` is None where no key was needed."""

    project: str
    key_id: UUID | None
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def require(self, scope: Scope) -> Self:
        """Raises PermissionDeniedError, which names the scope."""
        if not self.may(scope):
            raise PermissionDeniedError(
                f"This key lacks the scope '{scope}': make one that has it with `slipstream keys create --scope {scope}`."
            )
        return self


ANYONE = Caller(DEFAULT_PROJECT, None, frozenset(Scope))
"""Whoever calls while no key exists yet: the default project, with every right."""
